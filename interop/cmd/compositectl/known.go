package main

import (
	"errors"
	"flag"
	"strings"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"
)

// known adds flags by which a user tells what the program that uses the config has
// registered, and this one has not.
func known(set *flag.FlagSet) {
	set.Func("scheme", "a `SCHEME` of targets that the program has a resolver for; may be given again", func(name string) error {
		if name == "" {
			return errors.New("must not be empty")
		}
		if name = strings.ToLower(name); resolver.Get(name) == nil {
			resolver.Register(knownScheme(name))
		}
		return nil
	})
	set.Func("policy", "a load-balancing `POLICY` that the program has registered; may be given again", func(name string) error {
		if name == "" {
			return errors.New("must not be empty")
		}
		// Unlike schemes, the names of policies are told apart by their case.
		if balancer.Get(name) == nil {
			balancer.Register(knownPolicy(name))
		}
		return nil
	})
}

var errNotHere = errors.New("compositectl connects to nothing")

// knownScheme is a resolver that is never used.
type knownScheme string

func (s knownScheme) Scheme() string { return string(s) }

func (knownScheme) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	return nil, errNotHere
}

// knownPolicy is a policy that is never used.
type knownPolicy string

func (p knownPolicy) Name() string { return string(p) }

func (knownPolicy) Build(balancer.ClientConn, balancer.BuildOptions) balancer.Balancer {
	panic(errNotHere)
}
