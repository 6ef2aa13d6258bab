package composite

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

func TestJoinShort(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tc := range []struct {
		name  string
		parts []string
		want  string
	}{
		{"none", nil, ""},
		{"one", []string{"a"}, "a"},
		{"one that is too long by itself", []string{x(2000)}, x(2000)},
		{"some", []string{"a", "b", "c"}, "a; b; c"},
		{"as much as fits", []string{x(1000), x(24)}, x(1000) + "; " + x(24)},
		{"one letter more", []string{x(1000), x(25)}, x(1000) + "; and 1 more"},
		{"several more", []string{"a", x(1000), x(100), "d", "e"}, "a; " + x(1000) + "; and 3 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := joinShort(tc.parts); got != tc.want {
				t.Errorf("%d bytes %q\nwant %d %q", len(got), got, len(tc.want), tc.want)
			}
		})
	}
}

// TestListThatIsJustFull has the text of the first cluster leave one byte of the list.
func TestListThatIsJustFull(t *testing.T) {
	p := tableOf(3, 3, nil)
	p.clusters[0].cluster.name = strings.Repeat("x", maxErrorLength-1-len(" skipped: "))
	_, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)})
	if err == nil || !strings.HasSuffix(err.Error(), "x skipped: ; and 2 more") {
		t.Errorf("error %v", err)
	}
}

func TestQuoteShort(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"short", "a\nb", `"a\nb"`},
		{"as long as may be", strings.Repeat("x", 256), `"` + strings.Repeat("x", 256) + `"`},
		{"too long", strings.Repeat("x", 257), `"` + strings.Repeat("x", 256) + `..."`},
		{"cut within a letter", strings.Repeat("x", 255) + "ü", `"` + strings.Repeat("x", 255) + `..."`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := quoteShort(tc.text); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestCodeName checks that all codes are named as gRPC reads them.
func TestCodeName(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		var read codes.Code
		if err := read.UnmarshalJSON([]byte(`"` + codeName(code) + `"`)); err != nil || read != code {
			t.Errorf("%v is named %s, which is read as %v, %v", code, codeName(code), read, err)
		}
	}
}

func TestExplain(t *testing.T) {
	refused, missing := errors.New("connection refused"), errors.New("no such host")
	for _, tc := range []struct {
		name            string
		reason          plan.Reason
		child, resolver error
		want            string
	}{
		{"nothing known", plan.NoEndpoints, nil, nil, "no endpoints"},
		{"user info", plan.TransientFailure, errors.New("dns://u:secret@ns/a: down"), errors.New("resolver for \"dns:///u:secret@a\": down"),
			`transient failure ("dns://***@ns/a: down", and its resolver: "resolver for \"dns:///***@a\": down")`},
		{"the time", plan.ConnectTimeout, nil, nil, "connect timeout after 3s"},
		{"the child's", plan.TransientFailure, refused, nil, `transient failure ("connection refused")`},
		{"the resolver's", plan.TransientFailure, nil, missing, `transient failure ("no such host")`},
		{"both", plan.ConnectTimeout, refused, missing, `connect timeout after 3s ("connection refused", and its resolver: "no such host")`},
		{"the child's quotes the resolver's", plan.TransientFailure, fmt.Errorf("produced zero addresses: %w", missing), missing, `transient failure ("produced zero addresses: no such host")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := explain(tc.reason, 3*time.Second, tc.child, tc.resolver); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestOverflowError checks what an attempt past the end says, with the last attempt's
// own status and without.
func TestOverflowError(t *testing.T) {
	aborted := status.New(codes.Aborted, "conflict")
	last := &attempt.Failure{Number: 2, Err: aborted.Err()}
	const story = "composite: attempt 3: no host available (no_healthy_upstream): past the end of the list of 2 (a; b)"
	for _, tc := range []struct {
		name string
		err  overflowError
		code codes.Code
		want string
	}{
		{"the last attempt's status", overflowError{last: last, status: aborted}, codes.Aborted, "rpc error: code = Aborted desc = conflict; " + story},
		{"its error alone", overflowError{last: last}, codes.Unavailable, "rpc error: code = Unavailable desc = " + story + `; attempt 2: ABORTED "conflict"`},
		{"no attempt before", overflowError{}, codes.Unavailable, "rpc error: code = Unavailable desc = " + story},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.err.names, tc.err.number = []string{"a", "b"}, 3
			if got := tc.err.Error(); got != tc.want || status.Code(&tc.err) != tc.code {
				t.Errorf("%v %s\nwant %v %s", status.Code(&tc.err), got, tc.code, tc.want)
			}
		})
	}
}

// askedPicker counts how often it is asked why it has no host.
type askedPicker struct {
	asked int
	err   error
}

func (p *askedPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.asked++
	return balancer.PickResult{}, p.err
}

// TestErrorOfManyClusters checks that no more clusters are asked why they have no host
// than fit into an error's text.
func TestErrorOfManyClusters(t *testing.T) {
	p, asked := tableOf(64, 64, nil), &askedPicker{err: errors.New("connection refused by peers")}
	for i := range p.clusters {
		c := p.clusters[i].cluster
		p.clusters[i].reason = plan.TransientFailure
		c.name = fmt.Sprintf("c%02d", i)
		c.current = &child{state: balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: asked}}
	}
	_, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)})
	const part = `c00 skipped: transient failure ("connection refused by peers")` + "; "
	const fit = maxErrorLength / len(part)
	if fit*len(part) != maxErrorLength {
		t.Fatalf("parts of %d bytes do not fill %d", len(part), maxErrorLength)
	}
	if want := fmt.Sprintf("; and %d more", len(p.clusters)-fit); !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v: want it to end with %q", err, want)
	}
	if want := fit + 1; asked.asked != want { // the last one that may be of use
		t.Errorf("%d clusters are asked: want %d", asked.asked, want)
	}
}

// TestPickerError checks what a child's picker tells of why it has no host.
func TestPickerError(t *testing.T) {
	refused := errors.New("connection refused")
	done := 0
	for _, tc := range []struct {
		name  string
		child balancer.Picker
		want  error
	}{
		{"none", nil, nil},
		{"an error", childFunc(func(balancer.PickInfo) (balancer.PickResult, error) { return balancer.PickResult{}, refused }), refused},
		{"it waits", childFunc(func(balancer.PickInfo) (balancer.PickResult, error) {
			return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
		}), nil},
		{"it picks", &stubPicker{}, nil},
		{"it picks, and has to be told of the end", &stubPicker{balancer.PickResult{Done: func(balancer.DoneInfo) { done++ }}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := balancer.PickInfo{Ctx: firstAttempt(t)}
			if got := pickerError(tc.child, attempt.FromContext(info.Ctx), info); got != tc.want { //nolint:errorlint // itself
				t.Errorf("error %v: want %v", got, tc.want)
			}
		})
	}
	if done != 1 {
		t.Errorf("Done was called %d times: want 1", done)
	}
}
