package main

import (
	"fmt"
	"io"
	"strings"
)

// report prints the table, in Markdown, and returns an error if something was not as
// it is known to be.
func report(out io.Writer, results []result) error {
	bad := 0
	_, _ = fmt.Fprintf(out, "\n| grpc-go | result | differs |\n|---|---|---|\n")
	for _, r := range results {
		if !r.ok() {
			bad++
		}
		var facts []string
		for _, d := range differencesOf(r.version) {
			facts = append(facts, d.fact)
		}
		_, _ = fmt.Fprintf(out, "| %s | %s | %s |\n", r.version, r, strings.Join(facts, "; "))
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d versions are not as known", bad, len(results))
	}
	return nil
}

// ok tells whether all is as known.
func (r result) ok() bool { return r.err == nil && len(r.failed) == 0 && len(r.stale) == 0 }

// String tells the result in a line.
func (r result) String() string {
	if r.builds {
		return "builds"
	}
	if r.err != nil {
		return "does not build: " + strings.Join(strings.Fields(r.err.Error()), " ")
	}
	parts := []string{fmt.Sprintf("%d packages pass in %v", r.passed, r.took)}
	for _, list := range []struct {
		title string
		tests []string
	}{{"fail", r.failed}, {"pass and should fail", r.stale}, {"pass only when run again", r.flaky}} {
		if len(list.tests) > 0 {
			parts = append(parts, list.title+": "+strings.Join(list.tests, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
