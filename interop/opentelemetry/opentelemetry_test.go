// Package opentelemetry tests composite channels with gRPC's OpenTelemetry plugin,
// and with the OpenTelemetry project's own instrumentation of gRPC.
package opentelemetry

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats/opentelemetry"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/observe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// instruments are the ways to instrument a channel. Spans are the names of those
// that belong to an attempt, or "" if there are none.
var instruments = []struct {
	name   string
	option func(spans *trace.TracerProvider, metrics *metric.MeterProvider) grpc.DialOption
	spans  string
}{
	{"gRPC's metrics", func(_ *trace.TracerProvider, metrics *metric.MeterProvider) grpc.DialOption {
		return opentelemetry.DialOption(opentelemetry.Options{MetricsOptions: opentelemetry.MetricsOptions{MeterProvider: metrics}})
	}, ""},
	{"gRPC's traces", func(spans *trace.TracerProvider, _ *metric.MeterProvider) grpc.DialOption {
		return opentelemetry.DialOption(opentelemetry.Options{TraceOptions: traces(spans)})
	}, "Attempt."},
	{"gRPC's metrics and traces", func(spans *trace.TracerProvider, metrics *metric.MeterProvider) grpc.DialOption {
		return opentelemetry.DialOption(opentelemetry.Options{
			MetricsOptions: opentelemetry.MetricsOptions{MeterProvider: metrics}, TraceOptions: traces(spans),
		})
	}, "Attempt."},
	{"otelgrpc", func(spans *trace.TracerProvider, metrics *metric.MeterProvider) grpc.DialOption {
		return grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(spans), otelgrpc.WithMeterProvider(metrics)))
	}, "grpc.testing.TestService/"},
}

func traces(spans *trace.TracerProvider) experimental.TraceOptions {
	return experimental.TraceOptions{TracerProvider: spans, TextMapPropagator: propagation.TraceContext{}}
}

var calls = map[string]func(context.Context, *grpc.ClientConn, ...grpc.CallOption) error{
	"unary": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		_, err := testkit.Unary(ctx, cc, opts...)
		return err
	},
	"bidi stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
		if err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	},
}

// server starts a server of a scenario, and returns the cluster that it is.
type server func(t *testing.T, name string) testkit.Cluster

func answering(reply testkit.Reply) server {
	return func(t *testing.T, name string) testkit.Cluster {
		t.Helper()
		b := testkit.Start(t, name)
		b.Script(reply)
		return testkit.Clusters(b)[0]
	}
}

func closed(_ *testing.T, name string) testkit.Cluster {
	return testkit.Cluster{Name: name, Target: "passthrough:///" + testkit.ClosedPort}
}

func refusing(t *testing.T, name string) testkit.Cluster {
	t.Helper()
	return testkit.Cluster{Name: name, Target: testkit.StartRaw(t, name, testkit.RawRefuse).Target()}
}

// TestAttemptsAndTrail checks that instruments before and after DialOptions leave
// attempts and trail as they are, and that each attempt, and nothing else that gRPC
// begins, has a span.
func TestAttemptsAndTrail(t *testing.T) {
	u, ok := answering(testkit.U), answering(testkit.OK)
	for _, tc := range []struct {
		name    string
		servers []server
		code    codes.Code
		story   string
	}{
		{"healthy", []server{ok, ok}, codes.OK, "1 a OK"},
		{"retried", []server{u, u, ok}, codes.OK, "1 a Unavailable, 2 b Unavailable, 3 c OK"},
		{"skipped", []server{closed, ok}, codes.OK, "1 b OK past a"},
		{"skipped and retried", []server{closed, u, ok}, codes.OK, "1 b Unavailable past a, 2 b Unavailable, 3 c OK"},
		{"repeated transparently", []server{refusing, ok}, codes.OK, "1 a repeated, 1 a Unavailable transparent, 2 b OK"},
		{"in vain", []server{u, u, u}, codes.Unavailable, "1 a Unavailable, 2 b Unavailable, 3 c Unavailable"},
	} {
		for _, instrument := range instruments {
			for _, before := range []bool{true, false} {
				for sort, call := range calls {
					place := map[bool]string{true: "before", false: "after"}[before]
					t.Run(strings.Join([]string{tc.name, instrument.name, place, sort}, "/"), func(t *testing.T) {
						t.Parallel()
						var clusters []testkit.Cluster
						for i, start := range tc.servers {
							clusters = append(clusters, start(t, string(rune('a'+i))))
						}
						exported := tracetest.NewInMemoryExporter()
						option := []grpc.DialOption{instrument.option(
							trace.NewTracerProvider(trace.WithSyncer(exported)),
							metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
						)}
						config := []grpc.DialOption{grpc.WithDefaultServiceConfig(testkit.Service{Clusters: clusters, Attempts: 3}.JSON())}
						opts := slices.Concat(composite.DialOptions(), option, config)
						if before {
							opts = slices.Concat(option, composite.DialOptions(), config)
						}
						cc := testkit.Dial(t, "composite:///", opts...)

						var trail composite.Trail
						err := call(testkit.Context(t), cc, composite.RecordTrail(&trail))
						if got := status.Code(err); got != tc.code {
							t.Errorf("error %v: want %v", err, tc.code)
						}
						if got := strings.ReplaceAll(observe.Trail(trail), " committed", ""); got != tc.story {
							t.Errorf("trail %q: want %q", got, tc.story)
						}
						if got, ok := composite.TrailFromError(err); ok != (err != nil) || ok && observe.Trail(got) != observe.Trail(trail) {
							t.Errorf("the error's trail is %q: want %q", observe.Trail(got), observe.Trail(trail))
						}
						if instrument.spans != "" {
							wantSpans(t, exported.GetSpans(), instrument.spans, len(trail.Attempts))
						}
					})
				}
			}
		}
	}
}

// wantSpans checks how many spans belong to attempts.
func wantSpans(t *testing.T, spans tracetest.SpanStubs, prefix string, want int) {
	t.Helper()
	var names []string
	for _, s := range spans {
		if strings.HasPrefix(s.Name, prefix) {
			names = append(names, s.Name)
		}
	}
	if len(names) != want {
		t.Errorf("spans of attempts: %q: want %d", names, want)
	}
}
