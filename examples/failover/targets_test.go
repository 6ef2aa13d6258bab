package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTargets makes RPCs until one comes to what is wanted: a machine that is
// very busy may take longer to connect than the first waits.
func TestTargets(t *testing.T) {
	t.Parallel()
	up, other := startServer(t, "up"), startServer(t, "other")
	down := startServer(t, "down")
	down.Stop()
	unavailable := startServer(t, "unavailable")
	unavailable.Unavailable.Store(true)
	bare, sick := startBare(t, healthpb.HealthCheckResponse_SERVING), startBare(t, healthpb.HealthCheckResponse_NOT_SERVING)
	foreign := testkit.Start(t, "foreign").Addr // without the health service
	_, port, err := net.SplitHostPort(up.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		targets []string
		cluster string
		attempt string
		status  string
		errors  []string // in the table
	}{
		{name: "the first is down", targets: []string{down.Addr, up.Addr}, cluster: up.Addr, attempt: "1", status: "OK"},
		{name: "the first is unavailable", targets: []string{unavailable.Addr, up.Addr, other.Addr}, cluster: up.Addr, attempt: "2", status: "OK"},
		{name: "all are down", targets: []string{down.Addr}, cluster: "-", attempt: "-", status: "Unavailable", errors: []string{"no host available", "connection refused"}},
		{name: "all are unavailable", targets: []string{unavailable.Addr}, cluster: unavailable.Addr, attempt: "-", status: "Unavailable", errors: []string{"as this step wants it"}},
		{name: "listed again", targets: []string{unavailable.Addr, unavailable.Addr, up.Addr}, cluster: up.Addr, attempt: "3", status: "OK"},
		{name: "by name", targets: []string{"localhost:" + port}, cluster: "localhost:" + port, attempt: "1", status: "OK"},
		{name: "by URI", targets: []string{"dns:///localhost:" + port}, cluster: "dns:///localhost:" + port, attempt: "1", status: "OK"},
		{name: "the server does not tell the attempt", targets: []string{bare}, cluster: bare, attempt: "-", status: "OK"},
		{name: "the server is not well", targets: []string{sick}, cluster: sick, attempt: "-", status: "OK, NOT_SERVING"},
		{name: "no health service", targets: []string{foreign}, cluster: foreign, attempt: "-", status: "Unimplemented", errors: []string{"unknown service grpc.health.v1.Health"}},
		{name: "spaces in the list", targets: []string{" " + up.Addr, " " + other.Addr + " "}, cluster: up.Addr, attempt: "1", status: "OK"},
		{name: "as many as there may be", targets: append(slices.Repeat([]string{down.Addr}, maxTargets-1), up.Addr), cluster: up.Addr, attempt: "1", status: "OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(testkit.Context(t))
			defer interrupt()
			var out, errs bytes.Buffer
			stdout := onRow(t, &out, func(r row) bool {
				return r.cluster == tc.cluster && r.attempt == tc.attempt && r.status == tc.status
			}, interrupt)
			code := run(ctx, []string{"-targets", strings.Join(tc.targets, ","), "-n", "0", "-every", "1ms"}, stdout, &errs)

			got, others := rows(t, out.String())
			last := row{attempt: "-"}
			if len(got) > 0 {
				last = got[len(got)-1]
				last.number = ""
			}
			if want := (row{"", tc.cluster, tc.attempt, tc.status}); last != want {
				t.Errorf("the last row is %v: want %v, in:\n%s", last, want, out.String())
			}
			wantCode, wantErr := demo.ExitOK, ""
			if !strings.HasPrefix(tc.status, "OK") {
				wantCode, wantErr = demo.ExitFailed, "failover: the last RPC failed\n"
			}
			if code != wantCode || errs.String() != wantErr {
				t.Errorf("exit code %d, stderr %q: want %d and %q", code, errs.String(), wantCode, wantErr)
			}
			text := oneLine(others...)
			for _, part := range tc.errors {
				if !strings.Contains(text, part) {
					t.Errorf("output %q: want %q in it", text, part)
				}
			}
			checkAlignment(t, out.String())
		})
	}
}

// onRow returns a writer that calls f when it has written a row that fits.
func onRow(t *testing.T, w io.Writer, fits func(row) bool, f func()) io.Writer {
	t.Helper()
	return writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		if got, _ := rows(t, string(p)); len(got) == 1 && fits(got[0]) {
			f()
		}
		return n, err
	})
}

// TestTargetsCount checks -n and its default.
func TestTargetsCount(t *testing.T) {
	t.Parallel()
	down := startServer(t, "down")
	down.Stop()
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"default", nil, 10},
		{"one", []string{"-n", "1"}, 1},
		{"many", []string{"-n=37"}, 37},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, append([]string{"-targets", down.Addr, "-every", "1ms"}, tc.args...)...)
			if code != demo.ExitFailed || stderr != "failover: the last RPC failed\n" {
				t.Errorf("exit code %d, stderr %q: want %d and why", code, stderr, demo.ExitFailed)
			}
			if got, _ := rows(t, stdout); len(got) != tc.want || got[tc.want-1].number != strconv.Itoa(tc.want) {
				t.Errorf("rows %v: want %d", got, tc.want)
			}
			if n := strings.Count(oneLine(stdout), "no host available"); n != 1 {
				t.Errorf("the error is printed %d times: want once, since it repeats, in:\n%s", n, stdout)
			}
		})
	}
}

// startBare starts a server of the health service that knows nothing of this
// example.
func startBare(t *testing.T, serving healthpb.HealthCheckResponse_ServingStatus) (addr string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, service := grpc.NewServer(), health.NewServer()
	service.SetServingStatus("", serving)
	healthpb.RegisterHealthServer(srv, service)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	return lis.Addr().String()
}

// TestTargetsChange breaks the first server and repairs it between RPCs.
func TestTargetsChange(t *testing.T) {
	t.Parallel()
	first, second := startServer(t, "first"), startServer(t, "second")
	ctx, interrupt := context.WithCancel(testkit.Context(t))
	defer interrupt()
	phases := []struct {
		want row // that ends the phase
		end  func()
	}{
		{row{"", first.Addr, "1", "OK"}, func() { first.Unavailable.Store(true) }},
		{row{"", second.Addr, "2", "OK"}, func() { first.Unavailable.Store(false) }},
		{row{"", first.Addr, "1", "OK"}, interrupt},
	}
	var out, errs bytes.Buffer
	stdout := onRow(t, &out, func(r row) bool {
		r.number = ""
		return len(phases) > 0 && r == phases[0].want
	}, func() {
		phases[0].end()
		phases = phases[1:]
	})
	code := run(ctx, []string{"-targets", first.Addr + "," + second.Addr, "-n", "0", "-every", "1ms"}, stdout, &errs)
	if code != demo.ExitOK || errs.Len() > 0 || len(phases) > 0 {
		t.Errorf("exit code %d, stderr %q, %d phases left: want %d, nothing and none, after:\n%s", code, errs.String(), len(phases), demo.ExitOK, out.String())
	}
}
