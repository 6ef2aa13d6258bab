package composite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
)

// treeChannel is the channel: a fake one that makes RPCs.
type treeChannel struct {
	fakeChannel
	world *treeWorld

	nextMu sync.Mutex
	next   chan struct{} // closed when there is another picker
}

func newTreeChannel(w *treeWorld) *treeChannel {
	return &treeChannel{world: w, next: make(chan struct{})}
}

func (c *treeChannel) UpdateState(s balancer.State) {
	c.fakeChannel.UpdateState(s)
	c.nextMu.Lock()
	defer c.nextMu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// updated is closed when there is another picker than that which is the latest now.
func (c *treeChannel) updated() <-chan struct{} {
	c.nextMu.Lock()
	defer c.nextMu.Unlock()
	return c.next
}

// treeRPC is an RPC of one attempt.
type treeRPC struct {
	number   int // of the attempt
	wait     bool
	deadline time.Duration // for a connection
	takes    time.Duration // when it has one
	result   error         // of the attempt then
	names    []string      // of the clusters, if it has a list of its own
}

// String is the RPC as a story has it.
func (r treeRPC) String() string {
	s := fmt.Sprint("RPC with attempt ", r.number)
	if r.wait {
		s += " that waits for ready"
	}
	if len(r.names) > 0 {
		s += fmt.Sprint(" for the clusters ", r.names)
	}
	if r.takes > 0 {
		s += fmt.Sprintf(" that takes %v and ends with %v", r.takes, status.Code(r.result))
	}
	return s
}

var errTreeDeadline = errors.New("the deadline of an RPC")

// call makes an RPC, and returns which server answers, as a channel does: it picks again
// when there is another picker, or when the connection that it got is none any more.
func (c *treeChannel) call(t *testing.T, rpc treeRPC) (server string, err error) {
	t.Helper()
	ctx := WithAttempt(context.Background(), rpc.number)
	if len(rpc.names) > 0 {
		ctx = WithClusters(ctx, rpc.names...)
	}
	a := beginAttempt(openRPC(ctx, t), rpc.wait)
	end := func(err error) { attempt.StatsHandler().HandleRPC(a, &stats.End{Client: true, Error: err}) }
	deadline := time.After(rpc.deadline)
	for {
		updated := c.updated()
		r, err := c.latest().Picker.Pick(balancer.PickInfo{Ctx: a})
		switch {
		case err == nil:
			if r.Done == nil {
				r.Done = func(balancer.DoneInfo) {}
			}
			if server, ok := r.SubConn.(*treeConn).server(); ok {
				time.Sleep(rpc.takes)
				r.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true, Err: rpc.result})
				end(rpc.result)
				return server, nil
			}
			r.Done(balancer.DoneInfo{})
		case err == balancer.ErrNoSubConnAvailable:
		case isStatus(err):
			end(err)
			return "", err
		case !rpc.wait:
			end(status.Error(codes.Unavailable, err.Error()))
			return "", err
		}
		select {
		case <-updated:
		case <-deadline:
			end(status.Error(codes.DeadlineExceeded, errTreeDeadline.Error()))
			return "", errTreeDeadline
		}
	}
}
