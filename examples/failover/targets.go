package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// callTargets makes RPCs to the servers that the user named. It returns an error
// if the last RPC failed, or if Ctrl-C came before any was over.
func callTargets(ctx context.Context, t *table, opts options) error {
	clusters := targetClusters(opts.targets)
	cc, err := dial(clusters)
	if err != nil {
		return &demo.UsageError{Err: fmt.Errorf("-targets: %w", err)} // the library says what is wrong with which
	}
	defer func() { _ = cc.Close() }()

	d := &directory{clusters: clusters}
	t.size(clusters, len("255.255.255.255:65535"))
	t.header()
	ticker := time.NewTicker(opts.every)
	defer ticker.Stop()
	var last *answer
	for n := 1; t.Err() == nil && (opts.n == 0 || n <= opts.n); n++ {
		if n > 1 {
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
		a := check(ctx, cc, d)
		if ctx.Err() != nil {
			break // cut short: it says nothing about the servers
		}
		t.row(n, a)
		last = &a
	}
	switch {
	case t.Err() != nil:
		return t.Err()
	case last == nil:
		return demo.ErrInterrupted
	case last.err != nil:
		return errors.New("the last RPC failed") // its error is in the table
	}
	return nil
}

// targetClusters makes a cluster of each target, which is its name, too. Where
// a target is listed again, it gets another attempt, and has only its name in
// the config.
func targetClusters(targets []string) []cluster {
	var clusters []cluster
	for i, target := range targets {
		c := cluster{Name: target, Target: target}
		if slices.Contains(targets[:i], target) {
			c.Target = ""
		}
		clusters = append(clusters, c)
	}
	return clusters
}

// directory tells which cluster a server belongs to.
type directory struct {
	clusters []cluster
	known    map[string]string // names of clusters by server address
}

// cluster returns the name of the first cluster that has a server at an address,
// or "" if none is known to have one.
func (d *directory) cluster(ctx context.Context, address string) string {
	name, ok := d.known[address]
	if ok {
		return name
	}
	for _, c := range d.clusters {
		if c.Target == address || resolvesTo(ctx, c.Target, address) {
			name = c.Name
			break
		}
	}
	if d.known == nil {
		d.known = make(map[string]string)
	}
	d.known[address] = name
	return name
}

// resolvesTo tells whether the system finds an address under the name in a
// target: "host:port", "host" or a URI that ends in one of them.
func resolvesTo(ctx context.Context, target, address string) bool {
	name := strings.TrimPrefix(target[strings.LastIndex(target, "/")+1:], "dns:")
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		host, port = strings.Trim(name, "[]"), "443" // gRPC's default port
	}
	if host == "" {
		host = "localhost" // as gRPC has it
	}
	ip, addressPort, err := net.SplitHostPort(address)
	if err != nil || addressPort != port {
		return false
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	return err == nil && slices.Contains(found, ip)
}
