package debugz_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// dial opens a channel with the service's config, and connects it. The target is
// the test's own, by which its channel is found among those of other tests.
func dial(t testing.TB, s testkit.Service, opts ...grpc.DialOption) (cc *grpc.ClientConn, target string) {
	t.Helper()
	r := testkit.NewResolver(t)
	opts = slices.Concat(composite.DialOptions(), opts, []grpc.DialOption{grpc.WithDefaultServiceConfig(s.JSON())})
	cc = testkit.Dial(t, r.Target(), opts...)
	cc.Connect()
	if err := r.UpdateAddrs(); err != nil {
		t.Fatal(err)
	}
	return cc, r.Target()
}

// get asks a handler.
func get(t testing.TB, h http.Handler, url string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, url, nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", url, answer.Code, answer.Body)
	}
	return answer
}

// process is all that a handler tells as JSON.
func process(t testing.TB, h http.Handler) inspect.Process {
	t.Helper()
	var p inspect.Process
	if err := json.Unmarshal(get(t, h, "/?format=json").Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// find returns the channel of a target, if it is there.
func find(p inspect.Process, target string) (inspect.Channel, bool) {
	for _, c := range p.Channels {
		if c.Target == target {
			return c, true
		}
	}
	return inspect.Channel{}, false
}

// await waits until the channel of a target is as wanted.
func await(t testing.TB, target, what string, holds func(c inspect.Channel) bool) inspect.Channel {
	t.Helper()
	h := debugz.Handler()
	var last inspect.Channel
	testkit.Eventually(t, what, func() bool {
		c, ok := find(process(t, h), target)
		last = c
		return ok && holds(c)
	})
	return last
}

// conditions are those of the clusters, in order.
func conditions(c inspect.Channel) string {
	text := ""
	for i, cluster := range c.Clusters {
		if i > 0 {
			text += ", "
		}
		text += cluster.Condition
		if cluster.Reason != "" {
			text += " (" + cluster.Reason + ")"
		}
		if cluster.HeldBack != "" {
			text += " [" + cluster.HeldBack + "]"
		}
	}
	return text
}

// ways are where attempts would go.
func ways(c inspect.Channel) string {
	text := ""
	for i, s := range c.Slots {
		if i > 0 {
			text += ", "
		}
		text += s.Cluster + ">" + s.GoesTo
		if s.Waits {
			text += "?"
		}
	}
	return text
}
