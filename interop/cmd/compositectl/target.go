package main

import (
	"errors"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// isTarget tells whether an argument is a target that has its clusters in it, and
// not the name of a file.
func isTarget(arg string) bool {
	scheme, _, ok := strings.Cut(arg, ":")
	return ok && strings.EqualFold(scheme, composite.Name)
}

// configOfTarget returns the service config that a target makes.
func configOfTarget(target string) (string, error) {
	parsed, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	var made madeConfig
	if _, err := resolver.Get(composite.Name).Build(resolver.Target{URL: *parsed}, &made, resolver.BuildOptions{}); err != nil {
		return "", err
	}
	if made.err == nil && made.text == "" {
		made.err = errors.New("composite: target: without clusters in it, it makes no service config: give the file that has the program's own")
	}
	return made.text, made.err
}

// madeConfig takes what the resolver of a target delivers.
type madeConfig struct {
	resolver.ClientConn

	text string
	err  error
}

func (m *madeConfig) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	m.text = text // lint and explain say what is wrong with it
	return &serviceconfig.ParseResult{}
}

func (m *madeConfig) UpdateState(state resolver.State) error {
	if state.ServiceConfig != nil {
		m.err = state.ServiceConfig.Err
	}
	return nil
}
