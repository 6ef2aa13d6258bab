package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// Patience is how long a test waits for what must happen.
const Patience = 20 * time.Second

// Context returns a context that ends when the test has no patience left.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Cluster is an entry of a config. More holds fields by their JSON names.
type Cluster struct {
	Name, Target string
	More         map[string]any
}

// Clusters returns an entry for each server, with pick_first as child policy or
// the policies given by more.
func Clusters(backends ...*Backend) []Cluster {
	var clusters []Cluster
	for _, b := range backends {
		clusters = append(clusters, Cluster{Name: b.Name, Target: b.Target()})
	}
	return clusters
}

// Service is a service config with the policy "composite".
type Service struct {
	Clusters  []Cluster
	More      map[string]any // fields of the policy's config
	Attempts  int            // of the retry policy; below 2: no retry policy
	Retryable []string       // default UNAVAILABLE
	Other     map[string]any // fields of the service config itself
}

// Policy returns the config of the policy.
func (s Service) Policy() map[string]any {
	var clusters []map[string]any
	for _, c := range s.Clusters {
		entry := map[string]any{"name": c.Name}
		if c.Target != "" {
			entry["target"] = c.Target
			entry["connectTimeout"] = "20s" // a busy machine must not make a cluster look down
		}
		for k, v := range c.More {
			entry[k] = v
		}
		clusters = append(clusters, entry)
	}
	policy := map[string]any{"clusters": clusters}
	for k, v := range s.More {
		policy[k] = v
	}
	return policy
}

// JSON returns the service config.
func (s Service) JSON() string {
	config := map[string]any{"loadBalancingConfig": []any{map[string]any{"composite": s.Policy()}}}
	for k, v := range s.Other {
		config[k] = v
	}
	if s.Attempts > 1 {
		retryable := s.Retryable
		if len(retryable) == 0 {
			retryable = []string{"UNAVAILABLE"}
		}
		config["methodConfig"] = []any{map[string]any{
			"name": []any{map[string]any{}},
			"retryPolicy": map[string]any{
				"maxAttempts": s.Attempts, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
				"backoffMultiplier": 1, "retryableStatusCodes": retryable,
			},
		}}
	}
	text, err := json.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("testkit: %v", err)) // a test's own mistake
	}
	return string(text)
}

// Dial opens a plaintext channel that is closed when the test ends.
func Dial(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatalf("NewClient(%q): %v", target, err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// Unary makes a unary call and returns the name of the server that answered.
func Unary(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
	resp, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, &testpb.SimpleRequest{}, opts...)
	return resp.GetHostname(), err
}

// AwaitState waits until the channel is in a state.
func AwaitState(t testing.TB, cc *grpc.ClientConn, want connectivity.State) {
	t.Helper()
	ctx := Context(t)
	for s := cc.GetState(); s != want; s = cc.GetState() {
		if !cc.WaitForStateChange(ctx, s) {
			t.Fatalf("the channel is %v: want %v", s, want)
		}
	}
}

// Eventually waits until a condition holds that nothing announces.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// AwaitServer calls until the server of that name answers.
func AwaitServer(t testing.TB, cc grpc.ClientConnInterface, name string) {
	t.Helper()
	ctx := Context(t)
	Eventually(t, "an answer from "+name, func() bool {
		got, _ := Unary(ctx, cc)
		return got == name
	})
}

// Contains fails the test unless the error's text has all parts.
func Contains(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error: want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q: want %q in it", err, part)
		}
	}
}
