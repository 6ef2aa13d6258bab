package main

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// clusterOnSpans puts the cluster and the number of each attempt on the attempt's
// span. Give it to grpc.WithStatsHandler after composite.DialOptions, and after what
// makes the spans.
type clusterOnSpans struct{}

// HandleRPC is called with the context of an attempt, which has the attempt's span.
// The number is known when the attempt begins, the cluster when it is sent.
func (clusterOnSpans) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch event.(type) {
	case *stats.Begin, *stats.OutHeader:
	default:
		return
	}
	a, ok := composite.AttemptFromContext(ctx)
	if !ok {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.Int("composite.attempt", a.Number))
	if a.Cluster != "" {
		span.SetAttributes(attribute.String("composite.cluster", a.Cluster))
	}
}

func (clusterOnSpans) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (clusterOnSpans) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (clusterOnSpans) HandleConn(context.Context, stats.ConnStats) {}
