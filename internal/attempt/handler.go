package attempt

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// StatsHandler returns the handler that stamps each attempt of the RPCs whose
// interceptor opened a ledger. It has no state of its own: any number of
// channels may share it.
func StatsHandler() stats.Handler { return new(handler) }

type handler struct{}

// TagRPC is called before each attempt is picked for, and the context that it
// returns is the one that the picker gets.
func (*handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	l, ok := ctx.Value(attemptKey).(*Ledger)
	if !ok {
		// Not tracked, or a second handler of the same channel: the ledger would
		// have hidden the attempt of any other channel's RPC.
		return ctx
	}
	return l.tag(ctx, info.FullMethodName, info.FailFast)
}

// HandleRPC sees an attempt begin, move on and end. Whether it is transparent is
// known only when it begins.
func (*handler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.Begin:
		if a := FromContext(ctx); a != nil {
			a.ledger.begin(a, e)
		}
	case *stats.OutHeader:
		if a := FromContext(ctx); a != nil {
			a.headerSent(e)
		}
	case *stats.OutPayload:
		if a := FromContext(ctx); a != nil {
			a.messageSent(e)
		}
	case *stats.InHeader:
		if a := FromContext(ctx); a != nil {
			a.headerReceived()
		}
	case *stats.InTrailer:
		if !limited.Load() {
			return // without the cost of looking for the attempt
		}
		if a := FromContext(ctx); a != nil {
			a.answered()
		}
	case *stats.End:
		if a := FromContext(ctx); a != nil {
			a.ledger.end(a, e, e.Error)
		}
	}
}

func (*handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*handler) HandleConn(context.Context, stats.ConnStats) {}

// Interceptors open ledgers. The zero value does no more than that.
type Interceptors Hooks

// Unary returns an interceptor that opens a ledger for each unary RPC.
func (i *Interceptors) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, l, found := i.open(ctx, cc, method, opts)
		if found {
			return invoker(ctx, method, req, reply, cc, opts...)
		}
		opts, err := i.start(l, opts)
		if err != nil {
			return err
		}
		err = invoker(ctx, method, req, reply, cc, opts...)
		if err != nil && tellsNothing(err) && l.Retried() && !l.answered() {
			err = l.unreported(err)
		}
		return l.result(err)
	}
}

// Stream returns an interceptor that opens a ledger for each streaming RPC.
func (i *Interceptors) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ctx, l, found := i.open(ctx, cc, method, opts)
		if found {
			return streamer(ctx, desc, cc, method, opts...)
		}
		opts, err := i.start(l, opts)
		if err != nil {
			return nil, err
		}
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, l.result(err)
		}
		return &stream{ClientStream: s, ledger: l, oneReply: !desc.ServerStreams, oneRequest: !desc.ClientStreams}, nil
	}
}

// open opens a ledger, or finds the one that other interceptors of the RPC have opened:
// they are those that end it.
func (i *Interceptors) open(ctx context.Context, cc *grpc.ClientConn, method string, opts []grpc.CallOption) (_ context.Context, _ *Ledger, found bool) {
	ctx, l, found := open(ctx, cc, method, i)
	if !found && i.Lean {
		l.lean, l.failFast = true, failFastOption(opts)
	}
	return ctx, l, found
}

func (i *Interceptors) start(l *Ledger, opts []grpc.CallOption) ([]grpc.CallOption, error) {
	if i.Started == nil {
		return opts, nil
	}
	return i.Started(l, opts)
}

// stream sees how a streaming RPC ends, and what its client has sent.
type stream struct {
	grpc.ClientStream
	ledger     *Ledger
	oneReply   bool // the RPC is over when a message was received
	oneRequest bool
	received   bool // a message
}

func (s *stream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	switch {
	case err == nil:
		s.ledger.messages.Add(1)
		return nil
	case isExhausted(err):
		// Nobody has to receive any more.
		s.ledger.finish(err)
	case err != io.EOF: //nolint:errorlint // the word for a stream that is over
		return s.ledger.result(err)
	}
	if s.oneRequest {
		return nil // callers take any error for the RPC's, which RecvMsg tells
	}
	// gRPC promises io.EOF itself. Who takes another error for the RPC's own does not
	// learn what the server said, which RecvMsg tells.
	return io.EOF
}

func (s *stream) CloseSend() error {
	err := s.ClientStream.CloseSend()
	s.ledger.halfClose()
	return err
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if tellsNothing(err) && !s.received && s.ledger.Retried() {
		// gRPC-Go ends the RPC with io.EOF, whatever its status, if a retry fails
		// while it sends again what was sent before. The stream itself knows. After a
		// message there is no retry.
		err = s.ClientStream.RecvMsg(m)
	}
	if err != nil && err != io.EOF && !s.received && s.ledger.Retried() { //nolint:errorlint // the word for success is io.EOF itself
		s.ledger.takeBack(FromContext(s.Context())) // it may have been told otherwise
	}
	if err == nil && !s.oneReply {
		s.received = true
		return nil
	}
	return s.ledger.result(err)
}

// isExhausted tells whether err is what gRPC-Go makes of io.EOF when an attempt fails while
// it is being sent, and no retries are left.
func isExhausted(err error) bool {
	return err != io.EOF && errors.Is(err, io.EOF) && strings.HasPrefix(err.Error(), "max retries exhausted: ") //nolint:errorlint // this is about what wraps it
}

// tellsNothing tells whether err is io.EOF, as gRPC-Go has it.
func tellsNothing(err error) bool {
	return err == io.EOF || isExhausted(err) //nolint:errorlint // others wrap it for reasons of their own
}

// answered tells whether a server has answered the latest attempt, so that an error which
// says that it could not be sent is not the attempt's.
func (l *Ledger) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads != nil && l.heads.flags.has(committed)
}

// unreported ends a unary RPC whose last attempt has failed while gRPC-Go sent its
// message again, of which it tells no more than io.EOF, and returns an error that is a
// status.
func (l *Ledger) unreported(err error) error {
	code, oneOf := codes.Unknown, []codes.Code(nil)
	if isExhausted(err) {
		code, oneOf = l.onlyRetryableCode(), l.retryableCodes()
	}
	l.conclude(oneOf)
	l.mu.Lock()
	latest := l.heads
	l.mu.Unlock()
	l.takeBack(latest)
	return status.Error(code, notReported)
}

// isReplacement tells whether gRPC-Go made err in place of the picker's error
// ended, whose text it quotes.
func isReplacement(err, ended error) bool {
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.Internal && strings.HasSuffix(s.Message(), ended.Error())
}

// retryableCodes returns the codes that the method's retry policy goes on from, or
// UNKNOWN if there is none.
func (l *Ledger) retryableCodes() []codes.Code {
	policy := l.cc.GetMethodConfig(l.method).RetryPolicy
	if policy == nil || len(policy.RetryableStatusCodes) == 0 {
		return []codes.Code{codes.Unknown}
	}
	return slices.Collect(maps.Keys(policy.RetryableStatusCodes))
}

// onlyRetryableCode returns the one code that the method's retry policy goes on
// from, or UNKNOWN if there is no policy or it names several.
func (l *Ledger) onlyRetryableCode() codes.Code {
	if list := l.retryableCodes(); len(list) == 1 {
		return list[0]
	}
	return codes.Unknown
}
