package languages

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	tableFile  = "README.md"
	tableBegin = "<!-- The table is written by: go test ./languages -run TestTable -update -rust -->\n"
	tableEnd   = "<!-- The end of the table. -->\n"
)

// table has a column for each language: its heading, and a cell for each situation.
type table struct {
	mu      sync.Mutex
	heading map[string]string            // by the language's name
	cells   map[string]map[string]string // by name and title
}

func newTable() *table {
	return &table{heading: map[string]string{}, cells: map[string]map[string]string{}}
}

func (tb *table) set(l *language, title, cell string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.cells[l.name] == nil {
		tb.cells[l.name] = map[string]string{}
	}
	tb.cells[l.name][title] = cell
}

// TestTable measures the table in README.md, and compares. What differs is measured once
// more: now and then a server that stops under load leaves a call without an answer.
func TestTable(t *testing.T) {
	tally := newTally(t)
	measured := newTable()
	data, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	old, err := parseTable(string(data))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("measure", func(t *testing.T) {
		for _, l := range chosen() {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				tally.ready(t, l)
				running := l.start(t, 0)
				measured.mu.Lock()
				measured.heading[l.name] = fmt.Sprintf("%s (%s %s)", l.name, l.library, running.version)
				measured.mu.Unlock()
				for _, s := range situations {
					if l.cannot[s.title] != "" {
						continue
					}
					t.Run(s.title, func(t *testing.T) {
						cell := s.measure(t, l, running)
						if before := old.cells[l.name][s.title]; cell != before && !*update {
							t.Logf("%q: want %q, measured once more", cell, before)
							cell = s.measure(t, l, running)
						}
						measured.set(l, s.title, cell)
					})
				}
			})
		}
	})
	text := measured.over(old).String()
	if t.Failed() {
		return // what was not measured is not compared
	}
	if *update {
		before, _, _ := strings.Cut(string(data), tableBegin)
		_, after, _ := strings.Cut(string(data), tableEnd)
		if err := os.WriteFile(tableFile, []byte(before+tableBegin+text+tableEnd+after), 0o600); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if differences := diff(written(string(data)), text); len(differences) > 0 {
		t.Errorf("%s is not current; after a look at it, run with -update:\n%s", tableFile, strings.Join(differences, "\n"))
	}
}

// over returns the table with the columns of old that have not been measured.
func (tb *table) over(old *table) *table {
	merged := newTable()
	for _, l := range languages {
		source := old
		if tb.heading[l.name] != "" {
			source = tb
		}
		merged.heading[l.name] = source.heading[l.name]
		for _, s := range situations {
			cell, ok := source.cells[l.name][s.title]
			if !ok {
				cell = old.cells[l.name][s.title]
			}
			if reason := l.cannot[s.title]; reason != "" {
				cell = "cannot be: " + reason
			}
			merged.set(l, s.title, cell)
		}
	}
	return merged
}

// String returns the table in Markdown.
func (tb *table) String() string {
	heading, rule := "| what happens |", "|---|"
	for _, l := range languages {
		heading += " " + tb.heading[l.name] + " |"
		rule += "---|"
	}
	text := heading + "\n" + rule + "\n"
	for _, s := range situations {
		text += "| " + s.title + " |"
		for _, l := range languages {
			text += " " + tb.cells[l.name][s.title] + " |"
		}
		text += "\n"
	}
	return text + exceptions()
}

// exceptions lists the interop cases that servers cannot do.
func exceptions() string {
	text := "\nInterop cases that are left out, since the server cannot do them:\n\n"
	for _, l := range languages {
		for _, tc := range interopCases {
			if reason := l.cannot[tc.name]; reason != "" {
				text += fmt.Sprintf("- %s, `%s`: %s\n", l.name, tc.name, reason)
			}
		}
	}
	return text
}

// written is what stands between the two lines in the file's text.
func written(text string) string {
	_, rest, _ := strings.Cut(text, tableBegin)
	body, _, _ := strings.Cut(rest, tableEnd)
	return body
}

// parseTable reads the table from the file's text. What it does not know is left
// out, and differs then.
func parseTable(text string) (*table, error) {
	body := written(text)
	if body == "" && !strings.Contains(text, tableBegin+tableEnd) {
		return nil, fmt.Errorf("%s has no place for the table, between %q and %q", tableFile, tableBegin, tableEnd)
	}
	tb := newTable()
	for i, line := range strings.Split(body, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if i == 1 || len(cells) != len(languages)+1 {
			continue
		}
		for j, l := range languages {
			if i == 0 {
				tb.heading[l.name] = cells[j+1]
			} else {
				tb.set(l, cells[0], cells[j+1])
			}
		}
	}
	return tb, nil
}

// diff returns the lines that only one of the texts has.
func diff(old, now string) []string {
	var differences []string
	was, is := strings.Split(old, "\n"), strings.Split(now, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			differences = append(differences, "- "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			differences = append(differences, "+ "+line)
		}
	}
	return differences
}
