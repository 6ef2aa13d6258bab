package main

import (
	"regexp"
	"slices"
	"strings"
)

// outcome is what the tests of a package came to. A test with subtests counts as
// those.
type outcome struct{ passed, failed []string }

var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): (\S+) \(`)

// read reads the output of a test binary that was told to be verbose. A test that
// failed, and of which all subtests passed, failed itself.
func read(log string) outcome {
	var o outcome
	for _, m := range verdict.FindAllStringSubmatch(log, -1) {
		if m[1] == "PASS" {
			o.passed = append(o.passed, m[2])
		} else {
			o.failed = append(o.failed, m[2])
		}
	}
	o.passed, o.failed = leaves(o.passed), leaves(o.failed)
	return o
}

// leaves leaves out the tests that have others of the list below them.
func leaves(names []string) []string {
	parents := make(map[string]bool)
	for _, name := range names {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			parents[name[:i]] = true
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return parents[name] })
}

// pattern matches one test by its name, for -test.run.
func pattern(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
