package main

import (
	"strconv"
	"unicode/utf8"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const unknown = "-"

// table prints RPCs line by line, as they happen.
type table struct {
	*demo.Output

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
	t.columns(strconv.Itoa(number), orUnknown(a.cluster), orUnknown(a.address), attempt, demo.Milliseconds(a.took), a.code())
	text := ""
	if a.err != nil {
		text = a.err.Error()
	}
	if text != t.lastError {
		t.Text(text)
	}
	t.lastError = text
}

func (t *table) columns(number, cluster, address, attempt, took, status string) {
	t.clusterWidth, t.addressWidth = max(t.clusterWidth, len("CLUSTER")), max(t.addressWidth, len(address))
	t.Printf("   %3s  %-*s  %-*s  %7s  %10s  %s\n", number, t.clusterWidth, cluster, t.addressWidth, address, attempt, took, status)
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
