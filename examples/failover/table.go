package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	unknown     = "-"
	errorIndent = "       "
	errorWidth  = 90 // of the lines of an error, in characters
)

// table prints RPCs line by line, as they happen.
type table struct {
	w   io.Writer
	err error // from the first write that failed; nothing is written after it

	clusterWidth, addressWidth int    // of the columns
	lastError                  string // the error of the row before, or ""
}

// size makes the columns wide enough for the clusters and for addresses of a
// width, which may grow.
func (t *table) size(clusters []cluster, addressWidth int) {
	t.addressWidth = addressWidth
	for _, c := range clusters {
		t.clusterWidth = max(t.clusterWidth, utf8.RuneCountInString(c.Name))
	}
}

// printf prints whole lines.
func (t *table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

func (t *table) header() {
	t.columns("RPC", "CLUSTER", "ADDRESS", "ATTEMPT", "TIME", "STATUS")
}

// row prints one RPC and, below it, its error in full, unless that is the one
// printed last.
func (t *table) row(number int, a answer) {
	attempt := unknown
	if a.attempt > 0 {
		attempt = strconv.Itoa(a.attempt)
	}
	t.columns(strconv.Itoa(number), orUnknown(a.cluster), orUnknown(a.address), attempt, milliseconds(a.took), a.code())
	text := ""
	if a.err != nil {
		text = a.err.Error()
	}
	if text != t.lastError {
		for _, line := range wrap(text, errorWidth) {
			t.printf("%s%s\n", errorIndent, line)
		}
	}
	t.lastError = text
}

func (t *table) columns(number, cluster, address, attempt, took, status string) {
	t.clusterWidth, t.addressWidth = max(t.clusterWidth, len("CLUSTER")), max(t.addressWidth, len(address))
	t.printf("   %3s  %-*s  %-*s  %7s  %10s  %s\n", number, t.clusterWidth, cluster, t.addressWidth, address, attempt, took, status)
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// wrap breaks a text into lines, at spaces only. A word longer than a line has
// one of its own.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}
