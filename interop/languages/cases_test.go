package languages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// interopCase is one of gRPC's interop cases.
type interopCase struct {
	name string
	// policy is the child policy that it needs, or "" for the default.
	policy string
	run    func(ctx context.Context, dial func() *grpc.ClientConn)
}

// simple is a case that needs a client and no more.
func simple(name string, run func(context.Context, testpb.TestServiceClient, ...grpc.CallOption), opts ...grpc.CallOption) interopCase {
	return interopCase{name: name, run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		run(ctx, testpb.NewTestServiceClient(dial()), opts...)
	}}
}

var gzip = grpc.UseCompressor("gzip")

var interopCases = []interopCase{
	simple("empty_unary", interop.DoEmptyUnaryCall),
	simple("large_unary", interop.DoLargeUnaryCall),
	simple("large_unary, gzip", interop.DoLargeUnaryCall, gzip),
	simple("client_streaming", interop.DoClientStreaming),
	simple("client_streaming, gzip", interop.DoClientStreaming, gzip),
	simple("server_streaming", interop.DoServerStreaming),
	simple("ping_pong", interop.DoPingPong),
	simple("ping_pong, gzip", interop.DoPingPong, gzip),
	simple("empty_stream", interop.DoEmptyStream),
	simple("timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer),
	simple("cancel_after_begin", interop.DoCancelAfterBegin),
	simple("cancel_after_first_response", interop.DoCancelAfterFirstResponse),
	simple("custom_metadata", interop.DoCustomMetadata),
	simple("status_code_and_message", interop.DoStatusCodeAndMessage),
	simple("special_status_message", interop.DoSpecialStatusMessage),
	{name: "unimplemented_method", run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		interop.DoUnimplementedMethod(ctx, dial())
	}},
	{name: "unimplemented_service", run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, testpb.NewUnimplementedServiceClient(dial()))
	}},
	{name: "pick_first_unary", policy: "pick_first", run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		interop.DoPickFirstUnary(ctx, testpb.NewTestServiceClient(dial()))
	}},
	{name: "rpc_soak", run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		cc := dial()
		soak(ctx, func() (*grpc.ClientConn, func()) { return cc, func() {} })
	}},
	{name: "channel_soak", run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		soak(ctx, func() (*grpc.ClientConn, func()) {
			cc := dial()
			return cc, func() { _ = cc.Close() }
		})
	}},
	{name: "orca_per_rpc", policy: loadPolicy, run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		interop.DoORCAPerRPCTest(ctx, testpb.NewTestServiceClient(dial()))
	}},
	{name: "orca_oob", policy: loadPolicy, run: func(ctx context.Context, dial func() *grpc.ClientConn) {
		interop.DoORCAOOBTest(ctx, testpb.NewTestServiceClient(dial()))
	}},
}

// loadPolicy is the policy of package interop that hands out reports of load.
const loadPolicy = "test_backend_metrics_load_balancer"

// soak runs as many calls as grpc-go's client does by default, from two workers.
// The latencies are not what is tested.
func soak(ctx context.Context, channel func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159,
		PerIterationMaxAcceptableLatency: casePatience,
		OverallTimeout:                   casePatience,
		NumWorkers:                       2, Iterations: 10,
		ChannelForTest: channel,
	})
}

// casePatience is how long a case may take: some sleep for seconds.
const casePatience = time.Minute

// TestInteropCases runs all cases through composite channels: with the server in
// the first cluster, and with it in the second one after a cluster that is down.
func TestInteropCases(t *testing.T) {
	tally := newTally(t)
	for _, l := range chosen() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			tally.ready(t, l)
			s := l.start(t, 0)
			other := testkit.Start(t, "other")
			for _, tc := range interopCases {
				if l.cannot[tc.name] != "" {
					continue // README.md lists it
				}
				t.Run(tc.name, func(t *testing.T) {
					t.Run("healthy", func(t *testing.T) { runCase(t, tc, s.target(), other.Target()) })
					t.Run("first cluster down", func(t *testing.T) { runCase(t, tc, "passthrough:///"+testkit.ClosedPort, s.target()) })
				})
			}
			if got := other.Count(); got != 0 {
				t.Errorf("%d calls went past a healthy server", got)
			}
		})
	}
}

// runCase runs a case through a channel of two clusters.
func runCase(t *testing.T, tc interopCase, first, second string) {
	t.Helper()
	service := testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
		{Name: "first", Target: first}, {Name: "second", Target: second},
	}}
	if tc.policy != "" {
		for i := range service.Clusters {
			service.Clusters[i].More = map[string]any{"childPolicy": []any{map[string]any{tc.policy: map[string]any{}}}}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), casePatience)
	defer cancel()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatalLog:
			t.Error(string(p))
		default:
			panic(p)
		}
	}()
	tc.run(ctx, func() *grpc.ClientConn { return dialWithStatusErrors(t, service) })
}

// dialWithStatusErrors opens a channel whose errors are their status alone: some
// cases compare the text of an error, which ends with the trail otherwise.
func dialWithStatusErrors(t testing.TB, s testkit.Service) *grpc.ClientConn {
	t.Helper()
	options := append([]grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return statusError(invoker(ctx, method, req, reply, cc, opts...))
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return statusStream{stream}, statusError(err)
		}),
	}, composite.DialOptions()...)
	return testkit.Dial(t, "composite:///", append(options, grpc.WithDefaultServiceConfig(s.JSON()))...)
}

type statusStream struct{ grpc.ClientStream }

func (s statusStream) RecvMsg(m any) error { return statusError(s.ClientStream.RecvMsg(m)) }

func statusError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return status.Convert(err).Err()
}

func dial(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithDefaultServiceConfig(s.JSON()))
	return testkit.Dial(t, "composite:///", append(composite.DialOptions(), opts...)...)
}

// fatalLog is how package interop says that a case has failed: it logs, and the
// process would end.
type fatalLog string

// caseLogger panics where gRPC's own logger ends the process.
type caseLogger struct{ grpclog.LoggerV2 }

func init() { grpclog.SetLoggerV2(caseLogger{grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)}) }

func (caseLogger) Fatal(args ...any)                 { panic(fatalLog(fmt.Sprint(args...))) }
func (caseLogger) Fatalln(args ...any)               { panic(fatalLog(fmt.Sprintln(args...))) }
func (caseLogger) Fatalf(format string, args ...any) { panic(fatalLog(fmt.Sprintf(format, args...))) }
