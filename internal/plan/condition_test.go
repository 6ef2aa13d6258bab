package plan

import (
	"testing"

	"google.golang.org/grpc/connectivity"
)

func TestEvaluate(t *testing.T) {
	const (
		idle       = connectivity.Idle
		connecting = connectivity.Connecting
		ready      = connectivity.Ready
		failure    = connectivity.TransientFailure
		shutdown   = connectivity.Shutdown
	)
	for _, tc := range []struct {
		name   string
		facts  Facts
		want   Condition
		reason Reason
	}{
		{"a new cluster connects", Facts{State: connecting}, Connecting, ""},
		{"connecting", Facts{State: connecting, Asked: true}, Connecting, ""},
		{"connecting for too long", Facts{State: connecting, Asked: true, TimedOut: true}, NoHost, ConnectTimeout},
		{"connecting again after a failure", Facts{State: connecting, Asked: true, Failed: true}, NoHost, TransientFailure},
		{"connecting again after a failure, for too long", Facts{State: connecting, Asked: true, Failed: true, TimedOut: true}, NoHost, TransientFailure},

		{"idle, and nobody asked", Facts{State: idle}, Idle, ""},
		{"idle, and asked", Facts{State: idle, Asked: true}, Connecting, ""},
		{"idle, and asked for too long", Facts{State: idle, Asked: true, TimedOut: true}, NoHost, ConnectTimeout},
		{"idle, and nobody asked: no time runs", Facts{State: idle, TimedOut: true}, Idle, ""},
		{"idle after a failure", Facts{State: idle, Failed: true}, NoHost, TransientFailure},
		{"idle after a failure, and asked", Facts{State: idle, Failed: true, Asked: true}, NoHost, TransientFailure},

		{"ready", Facts{State: ready}, HasHost, ""},
		{"ready after a failure", Facts{State: ready, Failed: true}, HasHost, ""},
		{"ready after a long time", Facts{State: ready, Asked: true, TimedOut: true}, HasHost, ""},
		{"ready, though its endpoints are gone", Facts{State: ready, Empty: true}, HasHost, ""},
		{"ready, though it was never resolved", Facts{State: ready, Unresolved: true}, HasHost, ""},
		{"ready, and has refused its endpoints", Facts{State: ready, Rejected: true}, NoHost, TransientFailure},
		{"ready, and has refused an empty list", Facts{State: ready, Rejected: true, Empty: true}, NoHost, NoEndpoints},

		{"failing", Facts{State: failure}, NoHost, TransientFailure},
		{"failing, as it should", Facts{State: failure, Failed: true, Asked: true, TimedOut: true}, NoHost, TransientFailure},
		{"failing without endpoints", Facts{State: failure, Failed: true, Empty: true}, NoHost, NoEndpoints},
		{"shut down", Facts{State: shutdown}, NoHost, TransientFailure},

		{"resolving failed", Facts{State: connecting, Unresolved: true}, NoHost, TransientFailure},
		{"resolving failed, idle", Facts{State: idle, Unresolved: true}, NoHost, TransientFailure},
		{"no endpoints, and not reported yet", Facts{State: connecting, Empty: true}, Connecting, ""},
		{"no endpoints, and refused them", Facts{State: connecting, Empty: true, Rejected: true}, NoHost, NoEndpoints},
		{"no endpoints for too long", Facts{State: connecting, Empty: true, TimedOut: true}, NoHost, ConnectTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, reason := Evaluate(tc.facts)
			if got != tc.want || reason != tc.reason {
				t.Errorf("%+v: %v %q, want %v %q", tc.facts, got, reason, tc.want, tc.reason)
			}
		})
	}
}

// TestEvaluateAll checks what must hold for all facts there can be.
func TestEvaluateAll(t *testing.T) {
	for state := connectivity.Idle; state <= connectivity.Shutdown; state++ {
		for bits := range 1 << 6 {
			is := func(i int) bool { return bits&(1<<i) != 0 }
			f := Facts{State: state, Failed: is(0), Rejected: is(1), Unresolved: is(2), Empty: is(3), Asked: is(4), TimedOut: is(5)}
			c, reason := Evaluate(f)
			if (c == NoHost) != (reason != "") {
				t.Errorf("%+v: %v with the reason %q", f, c, reason)
			}
			if hasHost := state == connectivity.Ready && !f.Rejected; (c == HasHost) != hasHost {
				t.Errorf("%+v: %v", f, c)
			}
			if f.Failed && state != connectivity.Ready && c != NoHost {
				t.Errorf("%+v: %v before it is READY again", f, c)
			}
		}
	}
}

func TestChannelState(t *testing.T) {
	for _, tc := range []struct {
		name       string
		conditions []Condition
		want       connectivity.State
	}{
		{"no cluster", nil, connectivity.TransientFailure},
		{"no host", []Condition{NoHost, NoHost}, connectivity.TransientFailure},
		{"one has a host", []Condition{NoHost, Connecting, Idle, HasHost}, connectivity.Ready},
		{"the first has a host", []Condition{HasHost, Connecting, Idle, NoHost}, connectivity.Ready},
		{"one connects", []Condition{NoHost, Connecting, NoHost}, connectivity.Connecting},
		{"connecting before idle", []Condition{NoHost, Connecting, Idle}, connectivity.Connecting},
		{"idle before connecting", []Condition{Idle, Connecting, NoHost}, connectivity.Connecting},
		{"one is idle", []Condition{NoHost, Idle, NoHost}, connectivity.Idle},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ChannelState(tc.conditions); got != tc.want {
				t.Errorf("%v: %v, want %v", tc.conditions, got, tc.want)
			}
		})
	}
}

func TestConditionString(t *testing.T) {
	for c, want := range map[Condition]string{
		NoHost: "no host", HasHost: "has a host", Connecting: "connecting", Idle: "idle",
	} {
		if got := c.String(); got != want {
			t.Errorf("condition %d: %q, want %q", c, got, want)
		}
	}
}
