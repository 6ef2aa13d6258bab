package languages

import (
	"testing"

	"google.golang.org/grpc/codes"
)

// situation is a row of the table.
type situation struct {
	title string
	// measure returns the cell of a language. It may start servers of its own;
	// what it does not harm can use the one that is running.
	measure func(t *testing.T, l *language, running *server) string
}

// Situations that not all servers can get into.
const (
	headersThenFailure = "unary: the handler sends headers, then fails"
	forcedShutdown     = "shutdown by force, a call in flight"
)

var situations = []situation{
	{"unary: the handler fails", handler(unary(codes.Unavailable))},
	{headersThenFailure, handler(behaving(behaviorHeaders, unary(codes.Unavailable)))},
	{"unary: it fails with DEADLINE_EXCEEDED", handler(unary(codes.DeadlineExceeded))},
	{"unary: it fails with RESOURCE_EXHAUSTED", handler(unary(codes.ResourceExhausted))},
	{"server stream: the handler fails at once", handler(behaving(behaviorRefuse, serverStream(0)))},
	{"server stream: it fails before the first message", handler(serverStream(0))},
	{"server stream: it fails after the first message", handler(serverStream(1))},
	{"bidi stream: it fails at the first request", handler(bidi)},
	{"an uncaught exception or panic in the handler", fatalHandler(behaving(behaviorCrash, healthy))},
	{"a request above the server's size limit", handler(tooLarge)},
	{"an unknown method", handler(unimplemented)},
	{"its limit of calls at a time is reached", limited},
	{"no answer, `attemptTimeout`", hangs},
	{"no answer, the RPC's deadline", hangsUntilDeadline},
	{"graceful shutdown under load", drained},
	{forcedShutdown, stopped},
	{"process killed, a call in flight", killed},
	{"port closed", closed},
	{"process halted, connected, `attemptTimeout`", haltedConnected},
	{"process halted, connected, keepalive", haltedKeepalive},
	{"process halted, connected, neither", haltedUntilDeadline},
	{"process halted before the client connects", haltedBefore},
	{"a listener that accepts and says nothing", silent},
}

// handler measures a call that the server fails: what it sends, and what the
// client does.
func handler(c call) func(*testing.T, *language, *server) string {
	return func(t *testing.T, _ *language, s *server) string {
		t.Helper()
		return handle(t, c, s, s)
	}
}

// fatalHandler is handler for a failure that may end the process.
func fatalHandler(c call) func(*testing.T, *language, *server) string {
	return func(t *testing.T, l *language, _ *server) string {
		t.Helper()
		return handle(t, c, l.start(t, 0), l.start(t, 0))
	}
}

func handle(t *testing.T, c call, first, again *server) string {
	t.Helper()
	sent := answer(t, first, c)
	cc := channel(t, again.target(), nil)
	warm(t, cc)
	return sent + " " + outcome(contextOf(t), cc, c)
}
