package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// lastTrace keeps the spans of the trace whose root ended last. It stands for the
// exporter of a tracing back end.
type lastTrace struct {
	mu       sync.Mutex
	children []sdktrace.ReadOnlySpan // of roots that have not ended
	root     sdktrace.ReadOnlySpan
	spans    []sdktrace.ReadOnlySpan // of root's trace, in the order in which they ended
}

// ExportSpans is called when spans have ended.
func (l *lastTrace) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range spans {
		if s.Parent().IsValid() {
			l.children = append(l.children, s)
			continue
		}
		l.root, l.spans = s, nil
		for _, child := range l.children {
			if child.SpanContext().TraceID() == s.SpanContext().TraceID() {
				l.spans = append(l.spans, child)
			}
		}
		l.children = nil // RPCs are made one at a time here
	}
	return nil
}

// Shutdown does nothing.
func (l *lastTrace) Shutdown(context.Context) error { return nil }

// print prints the trace: the RPC's span, and below it those of its attempts.
func (l *lastTrace) print(out *demo.Output) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root == nil {
		return
	}
	printSpan(out, "   ", l.root)
	for _, s := range l.spans {
		printSpan(out, "     ", s)
	}
}

func printSpan(out *demo.Output, indent string, s sdktrace.ReadOnlySpan) {
	var attributes strings.Builder
	for _, a := range s.Attributes() {
		if strings.HasPrefix(string(a.Key), "composite.") {
			fmt.Fprintf(&attributes, " %s=%s", a.Key, a.Value.String())
		}
	}
	status := "OK"
	if s.Status().Code == codes.Error {
		status = "error"
	}
	out.Printf("%s%s%s %s, %s\n", indent, s.Name(), attributes.String(), status, demo.Milliseconds(s.EndTime().Sub(s.StartTime())))
}
