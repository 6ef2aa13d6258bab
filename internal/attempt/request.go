package attempt

import "context"

// request is a context that says what its caller wants of the next RPC.
type request struct {
	context.Context
	start  int // the number of the first attempt
	names  []string
	listed bool // names are the RPC's own list of clusters
}

// Value returns the request itself to an interceptor.
func (r *request) Value(key any) any {
	if key == openKey {
		return r
	}
	return r.Context.Value(key)
}

// WithStart returns a context that makes the next RPC count its attempts from n
// on instead of from 1.
func WithStart(ctx context.Context, n int) context.Context {
	r := newRequest(ctx)
	r.start = n
	return r
}

// WithList returns a context that gives the next RPC its own list of clusters.
func WithList(ctx context.Context, names []string) context.Context {
	r := newRequest(ctx)
	r.names, r.listed = names, true
	return r
}

// newRequest returns a context of ctx that asks for the same.
func newRequest(ctx context.Context) *request {
	r := &request{Context: ctx, start: 1}
	if before, ok := ctx.Value(openKey).(*request); ok {
		r.start, r.names, r.listed = before.start, before.names, before.listed
	}
	return r
}

// special is what few RPCs have.
type special struct {
	start    int       // the number of the first attempt
	list     *List     // the RPC's own clusters; nil if it has none
	recorder *recorder // writes the RPC's records; nil if nobody wants them
}

// specialize returns what the RPC has that few have, for one that is given
// something of it. It is called before the RPC's first attempt.
func (l *Ledger) specialize() *special {
	if l.special == nil {
		l.special = &special{start: 1}
	}
	return l.special
}

// ask gives the RPC what its caller wants.
func (l *Ledger) ask(r *request) {
	s := l.specialize()
	s.start, l.next = r.start, r.start
	if r.listed {
		s.list = &List{Names: r.names}
	}
}

// start is the number of the RPC's first attempt.
func (l *Ledger) start() int {
	if l.special == nil {
		return 1
	}
	return l.special.start
}

// recorder is nil if nobody wants the RPC's records.
func (l *Ledger) recorder() *recorder {
	if l.special == nil {
		return nil
	}
	return l.special.recorder
}
