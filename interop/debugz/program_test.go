package debugz

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// program is like the programs that serve the page: it calls a service in three
// clusters, all the time.
type program struct {
	url                          string
	server                       *httptest.Server
	cc                           *grpc.ClientConn
	primary, secondary, fallback *testkit.Backend
}

func startProgram(t *testing.T) *program {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/composite", debugz.Handler())
	p := &program{
		server:  httptest.NewServer(mux),
		primary: testkit.Start(t, "primary"), secondary: testkit.Start(t, "secondary"), fallback: testkit.Start(t, "fallback"),
	}
	t.Cleanup(p.server.Close)
	p.url = p.server.URL + "/debug/composite"
	s := testkit.Service{Attempts: 3, Clusters: testkit.Clusters(p.primary, p.secondary, p.fallback)}
	s.Clusters[0].More = map[string]any{"attemptTimeout": "2s"}
	s.Clusters[2].More = map[string]any{"lazy": true, "maxRequests": 100}
	p.cc = testkit.Dial(t, "composite:///", append(composite.DialOptions(), grpc.WithDefaultServiceConfig(s.JSON()))...)
	sometimes := func(every int) func(int, testkit.Call) testkit.Reply {
		return func(n int, _ testkit.Call) testkit.Reply {
			if n%every == 0 {
				return testkit.Reply{Code: testkit.U.Code, Message: "overloaded"}
			}
			return testkit.OK
		}
	}
	p.primary.Respond(sometimes(20))
	p.secondary.Respond(sometimes(7))
	p.call(t)
	return p
}

// call makes RPCs until the test is over.
func (p *program) call(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	t.Cleanup(func() { cancel(); calls.Wait() })
	calls.Go(func() {
		for ctx.Err() == nil {
			_, _ = testkit.Unary(ctx, p.cc) // the page tells what becomes of it
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}
