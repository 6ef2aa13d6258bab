package composite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// modelKey is the key of the metadata that tells a server which RPC an attempt
// belongs to: "hold" for one that is held.
const modelKey = "model-rpc"

// modelStream is an RPC that is held.
type modelStream struct {
	grpc.BidiStreamingClient[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]

	cancel context.CancelFunc
	timed  bool // has to be answered in time, perhaps
}

// answer is a gRPC server's reply.
func (w *modelWorld) answer(cluster, host string, c testkit.Call) testkit.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(c.Metadata[modelKey], []string{"hold"}) {
		return testkit.OK
	}
	r := w.nextReply(cluster, host, c.Metadata[modelKey])
	reply := testkit.Reply{Message: "scripted", Headers: r.Headers || r.Late, Hang: r.Hang, Code: code("OK")}
	if r.Code != "" {
		reply.Code = code(r.Code)
	}
	if r.Delay {
		reply.Delay = 5 * time.Millisecond
	}
	w.late = r.Late
	return reply
}

// delayEnd makes an answer late whose headers are sent. It is called before a
// server's method returns to gRPC.
func (w *modelWorld) delayEnd() {
	w.mu.Lock()
	late := w.late
	w.late = false
	w.mu.Unlock()
	if late {
		time.Sleep(w.pace.lateness())
	}
}

// serverOptions have servers answer when they have all of a request, unless it is
// an early answer or that to an RPC to hold, and delay the end of late answers.
func (w *modelWorld) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			defer w.delayEnd()
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			defer w.delayEnd()
			md, _ := metadata.FromIncomingContext(stream.Context())
			w.mu.Lock()
			now := w.early && len(w.hits) == 0 || slices.Equal(md[modelKey], []string{"hold"})
			w.mu.Unlock()
			if now || !info.IsClientStream {
				return handler(srv, stream)
			}
			read := &modelReadStream{ServerStream: stream}
			if err := read.all(); err != nil {
				return err
			}
			return handler(srv, read)
		}),
	}
}

// modelReadStream is a stream from which all has been read: empty messages.
type modelReadStream struct {
	grpc.ServerStream

	messages int
}

func (s *modelReadStream) all() error {
	for {
		switch err := s.ServerStream.RecvMsg(&testpb.Empty{}); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		s.messages++
	}
}

func (s *modelReadStream) RecvMsg(any) error {
	if s.messages == 0 {
		return io.EOF
	}
	s.messages--
	return nil
}

// answerRaw is what a server of hand-written frames does.
func (w *modelWorld) answerRaw(cluster string) (reply testkit.RawReply, early bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold {
		w.hold = false
		return testkit.RawOK, false
	}
	early = w.early && len(w.hits) == 0
	r := w.nextReply(cluster, cluster+"1", []string{strconv.Itoa(w.rpc)})
	switch {
	case r.Raw == "refuse":
		return testkit.RawRefuse, early
	case r.Raw == "reset":
		return testkit.RawReset, early
	case r.Raw == "gateway":
		return testkit.RawBadGateway, early
	case r.Hang:
		return testkit.RawSilence, early
	default:
		return testkit.RawOK, early
	}
}

// nextReply notes an attempt, and returns what to do with it. The caller holds mu.
func (w *modelWorld) nextReply(cluster, host string, rpc []string) modelReply {
	if !slices.Equal(rpc, []string{strconv.Itoa(w.rpc)}) {
		host += fmt.Sprintf(" (for RPC %v)", rpc)
	}
	w.hits = append(w.hits, modelServed{cluster, host})
	n := w.seen[cluster]
	w.seen[cluster]++
	list := w.reps[cluster]
	if len(list) == 0 {
		return modelReply{}
	}
	return list[min(n, len(list)-1)]
}

// begin tells the servers about an RPC.
func (w *modelWorld) begin(rpc modelRPC) (number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rpc++
	w.early = rpc.Early
	w.reps, w.seen, w.hits, w.ends, w.open = rpc.Replies, make(map[string]int), nil, 0, false
	return w.rpc
}

// reached tells whether an RPC has come to where it waits, but for a moment.
func (w *modelWorld) reached(wait modelWait) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hits) >= wait.AfterHits && w.ends >= wait.AfterEnds && w.open
}

// TagRPC is a stats handler's, and changes nothing.
func (w *modelWorld) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC counts the attempts of the RPC at hand.
func (w *modelWorld) HandleRPC(ctx context.Context, event stats.RPCStats) {
	_, begins := event.(*stats.Begin)
	_, ends := event.(*stats.End)
	if !begins && !ends {
		return
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(md[modelKey], []string{strconv.Itoa(w.rpc)}) {
		w.open = begins
		if ends {
			w.ends++
		}
	}
}

// TagConn is a stats handler's, and changes nothing.
func (w *modelWorld) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is a stats handler's, and does nothing.
func (w *modelWorld) HandleConn(context.Context, stats.ConnStats) {}

func (w *modelWorld) served() []modelServed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hits)
}

// context is that of an RPC's caller.
func (rpc *modelRPC) context(ctx context.Context) context.Context {
	if rpc.Start != nil {
		ctx = composite.WithAttempt(ctx, *rpc.Start)
	}
	if rpc.Own != nil {
		ctx = composite.WithClusters(ctx, *rpc.Own...)
	}
	return ctx
}

// call makes an RPC, of which it is known what must come of it, and does what ends
// its waiting. It returns how long the RPC took, and its error.
func (w *modelWorld) call(rpc modelRPC, want modelOutcome) (took time.Duration, err error) {
	n := w.begin(rpc)
	ctx, cancel := context.WithTimeout(context.Background(), w.expected(want)+2*modelPatience)
	defer cancel()
	if slices.ContainsFunc(want.Waits, func(wait modelWait) bool { return wait.Do == "deadline" }) {
		ctx, cancel = context.WithTimeout(ctx, w.pace.deadline())
		defer cancel()
	}
	ctx = metadata.AppendToOutgoingContext(rpc.context(ctx), modelKey, strconv.Itoa(n))
	done := make(chan error, 1)
	begin := time.Now()
	go func() { done <- w.invoke(ctx, rpc) }()
	restored := func() bool { return true }
	for _, wait := range want.Waits {
		for (!w.reached(wait) || !restored()) && len(done) == 0 && ctx.Err() == nil {
			time.Sleep(modelNap)
		}
		time.Sleep(4 * time.Millisecond) // the RPC comes to wait, most likely
		switch wait.Do {
		case "free":
			w.endHeld(wait.held)
		case "restore":
			w.arrange(wait.Cluster)
			restored = func() bool {
				return w.tiers[wait.Cluster].own != nil || w.tiers[wait.Cluster].unsettled(w.model.sites[wait.Cluster]) == ""
			}
		case "cancel":
			// Whatever the RPC has asked to connect has done so.
			for i := 0; i < 1000 && len(done) == 0 && w.unsettled(w.model.clusters) != ""; i++ {
				time.Sleep(modelNap)
			}
			cancel()
		}
	}
	err = <-done
	return time.Since(begin), err
}

// invoke makes the RPC itself.
func (w *modelWorld) invoke(ctx context.Context, rpc modelRPC) error {
	client := testpb.NewTestServiceClient(w.live.cc)
	opts := []grpc.CallOption{grpc.WaitForReady(rpc.Wait)}
	switch rpc.Kind {
	case "unary":
		_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{}, opts...)
		return err
	case "server":
		req := &testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{}, {}}}
		stream, err := client.StreamingOutputCall(ctx, req, opts...)
		if err != nil {
			return err
		}
		return receiveModel(stream.Recv)
	case "client":
		stream, err := client.StreamingInputCall(ctx, opts...)
		if err != nil {
			return err
		}
		if err := sendModel(rpc.Messages, &testpb.StreamingInputCallRequest{}, stream.Send); err != nil {
			return err
		}
		_, err = stream.CloseAndRecv()
		return err
	default:
		stream, err := client.FullDuplexCall(ctx, opts...)
		if err != nil {
			return err
		}
		if err := sendModel(rpc.Messages, &testpb.StreamingOutputCallRequest{}, stream.Send); err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		return receiveModel(stream.Recv)
	}
}

// sendModel sends a message so many times, or until the RPC has ended with a status
// that is to be received.
func sendModel[M any](times int, message M, send func(M) error) error {
	for range times {
		switch err := send(message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// receiveModel receives until the RPC has ended.
func receiveModel[M any](recv func() (M, error)) error {
	for {
		switch _, err := recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// startHeld begins an RPC that goes on, and goes to the cluster.
func (w *modelWorld) startHeld(rpc modelRPC, cluster string) {
	w.mu.Lock()
	w.hold = w.tiers[cluster].Policy == "raw"
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), modelKey, "hold"))
	patience := time.AfterFunc(modelPatience, cancel)
	stream, err := testpb.NewTestServiceClient(w.live.cc).FullDuplexCall(rpc.context(ctx))
	if !patience.Stop() || err != nil {
		cancel()
		w.t.Fatalf("held RPC to %s: %v", cluster, err)
	}
	w.held = append(w.held, &modelStream{stream, cancel, timedModel(w.model.clusters)})
	testkit.Eventually(w.t, "a held RPC is served", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.hold
	})
}

// endHeld ends a held RPC.
func (w *modelWorld) endHeld(i int) {
	s := w.held[i]
	defer s.cancel()
	w.held = slices.Delete(w.held, i, i+1)
	begin := time.Now()
	err := s.CloseSend()
	if err == nil {
		err = receiveModel(s.Recv)
	}
	if err != nil {
		w.slow = s.timed
		w.t.Fatalf("a held RPC ended with %v after %v: want OK", err, time.Since(begin))
	}
}

// compare says how an RPC differs from what it must be, or "".
func (w *modelWorld) compare(want modelOutcome, err error) string {
	hits := w.served()
	same := len(hits) == len(want.Hits)
	used := make(map[string]bool)
	for i := 0; same && i < len(hits); i++ {
		cluster := want.Hits[i].Cluster
		same = hits[i].Cluster == cluster
		if want.Hits[i].Avoids && used[hits[i].Host] && w.hasUnused(cluster, used) {
			return fmt.Sprintf("hit %d went to %v again: want another host: all hits: %v", i+1, hits[i], hits)
		}
		used[hits[i].Host] = true
	}
	if same && status.Code(err) == code(want.Code) {
		return ""
	}
	return fmt.Sprintf("got %v, error %v\nwant %v, code %s", hits, err, want.Hits, want.Code)
}

// hasUnused tells whether a cluster has a host that is not among those used.
func (w *modelWorld) hasUnused(cluster string, used map[string]bool) bool {
	for i, up := range w.model.sites[cluster].Up {
		if up && !used[fmt.Sprintf("%s%d", cluster, i+1)] {
			return true
		}
	}
	return false
}
