package main

import (
	"fmt"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	"google.golang.org/grpc/stats/opentelemetry"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

const serviceConfig = `{
	"loadBalancingConfig": [{"composite": {"clusters": [
		{"name": "primary",   "target": %q},
		{"name": "secondary", "target": %q}
	]}}],
	"methodConfig": [{
		"name": [{}],
		"retryPolicy": {
			"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
			"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`

// begin.

// dial opens a channel whose metrics and traces go to the providers. The order of
// the options matters: those of composite first, and what adds to spans after what
// makes them.
func dial(primary, secondary string, creds credentials.TransportCredentials, meters metric.MeterProvider, tracers trace.TracerProvider) (*grpc.ClientConn, error) {
	// gRPC's own metrics are on by default; those of composite are named.
	metrics := opentelemetry.DefaultMetrics().Add(
		"composite.picks", "composite.skips", "composite.exhausted", "composite.attempt_timeouts",
	)
	opts := composite.DialOptions()
	opts = append(opts,
		opentelemetry.DialOption(opentelemetry.Options{
			MetricsOptions: opentelemetry.MetricsOptions{MeterProvider: meters, Metrics: metrics},
			TraceOptions:   experimental.TraceOptions{TracerProvider: tracers, TextMapPropagator: propagation.TraceContext{}},
		}),
		grpc.WithStatsHandler(clusterOnSpans{}), // examples/otel/spans.go
		grpc.WithDefaultServiceConfig(fmt.Sprintf(serviceConfig, primary, secondary)),
		grpc.WithTransportCredentials(creds),
	)
	return grpc.NewClient("composite:///", opts...) // which is the label grpc.target
}

// end.
