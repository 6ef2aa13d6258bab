package attempt

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// chooseAll has each policy of some inside each other choose a cluster, the outermost
// first: letters name them, and "-" is a policy that chooses none.
func chooseAll(a *Attempt, letters string) {
	for i, letter := range letters {
		if i > 0 {
			a.EnterNested()
		}
		if letter != '-' {
			a.Choose(&Cluster{Name: string(letter)})
		}
	}
	for range len(letters) - 1 {
		a.LeaveNested()
	}
}

// TestClusters checks which clusters an attempt remembers of policies inside each
// other.
func TestClusters(t *testing.T) {
	for _, tc := range []struct {
		name        string
		picks       []string
		outer, path string
	}{
		{"never picked for", nil, "", ""},
		{"none chosen", []string{"-"}, "", ""},
		{"one policy", []string{"a"}, "a", "a"},
		{"two", []string{"ab"}, "a", "ba"},
		{"as many as are remembered", []string{"abcd"}, "a", "dcba"},
		{"more than are remembered", []string{"abcdef"}, "a", "dcba"},
		{"another pick", []string{"abc", "x"}, "x", "x"},
		{"another pick that chooses none", []string{"abc", "-"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rpc, _, _ := open(context.Background(), channel(t), method, opener)
			tr := newTrace(rpc, t)
			tr.run("tag s; begin")
			a := FromContext(tr.current.attempt)
			for _, letters := range tc.picks {
				a.Pick()
				chooseAll(a, letters)
			}
			var outer, path string
			if c := a.Cluster(); c != nil {
				outer = c.Name
			}
			for c := range a.Clusters() {
				path += c.Name
			}
			if outer != tc.outer || path != tc.path {
				t.Errorf("cluster %q, path %q: want %q, %q", outer, path, tc.outer, tc.path)
			}
			for range a.Clusters() {
				break // who stops is not asked on
			}
		})
	}
}

// TestNested checks what a picker knows of those around it.
func TestNested(t *testing.T) {
	var a Attempt
	if a.Nested() {
		t.Error("the outermost picker is nested")
	}
	a.EnterNested()
	if !a.Nested() {
		t.Error("one inside is not nested")
	}
	a.EnterNested()
	a.LeaveNested()
	if !a.Nested() {
		t.Error("one inside is not nested after it has asked its child")
	}
	a.LeaveNested()
	if a.Nested() {
		t.Error("the outermost picker is nested after it has asked its child")
	}
}

// TestEndRPCForgets checks that an RPC remembers the errors of as many streams as run
// at once, and not of all that ever did.
func TestEndRPCForgets(t *testing.T) {
	rpc, l, _ := open(context.Background(), channel(t), method, opener)
	tr := newTrace(rpc, t)
	tr.run("tag s; begin; pick")
	var ended []error
	for i := range maxEnded + 2 {
		ended = append(ended, status.Error(codes.Aborted, strings.Repeat("x", i+1)))
		FromContext(tr.current.attempt).EndRPC(ended[i])
	}
	for i, err := range ended {
		want := err
		if i < 2 {
			want = illegal(err)
		}
		if got := l.result(illegal(err)); got.Error() != want.Error() {
			t.Errorf("error %d of %d became %v: want %v", i+1, len(ended), got, want)
		}
	}
}

// TestList checks that an RPC has the list that it was given, and only that RPC.
func TestList(t *testing.T) {
	cc := channel(t)
	outer, _, _ := open(WithList(context.Background(), []string{"a", "b"}), cc, method, opener)
	inner, _, _ := open(outer, channel(t), method, opener)
	own, _, _ := open(WithList(outer, []string{"c"}), cc, method, opener)
	for _, tc := range []struct {
		name string
		rpc  context.Context
		want string
	}{
		{"the RPC", outer, "a b"},
		{"one on another channel, made inside it", inner, ""},
		{"one on the same channel with a list of its own", own, "c"},
	} {
		tr := newTrace(tc.rpc, t)
		tr.run("tag s; begin")
		list := FromContext(tr.current.attempt).List()
		if got := list != nil; got != (tc.want != "") {
			t.Errorf("%s has a list: %v", tc.name, got)
			continue
		}
		if list == nil {
			continue
		}
		if got := strings.Join(list.Names, " "); got != tc.want || list.Known() {
			t.Errorf("%s has the list %q, known %v: want %q", tc.name, got, list.Known(), tc.want)
		}
		if list.SetKnown(); !list.Known() {
			t.Errorf("%s: the list is not known", tc.name)
		}
	}
}

var errOwn = errors.New("own")
