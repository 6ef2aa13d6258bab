package languages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestMissingTool takes each tool away in turn: the error names it, and how to get
// it.
func TestMissingTool(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		for _, missing := range l.tools {
			err := l.findTools(func(command string) (string, error) {
				if command == missing.command {
					return "", exec.ErrNotFound
				}
				return "/bin/" + command, nil
			})
			testkit.Contains(t, err, missing.command+" is not installed")
			if got, ok := errors.AsType[*missingProgramError](err); !ok || got.install != missing.install {
				t.Errorf("error %v does not have what installs %s", err, missing.command)
			}
		}
		if err := l.findTools(func(command string) (string, error) { return "/bin/" + command, nil }); err != nil {
			t.Errorf("%s with all tools: %v", l.name, err)
		}
	}
}

// TestFailedBuild has a build that fails half-way: nothing is left that the next
// run could take for a server.
func TestFailedBuild(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache", "python")
	failed := errors.New("the registry is out of reach")
	l := &language{name: "Python", build: func(b *build) error {
		if _, err := os.Stat(b.path("server.py")); err != nil {
			t.Errorf("no sources: %v", err)
		}
		return failed
	}}
	if err := l.buildInto(dir); !errors.Is(err, failed) {
		t.Errorf("error %v: want %v", err, failed)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// TestFailedCommand has a program of a build that fails: the error has what it
// said.
func TestFailedCommand(t *testing.T) {
	t.Parallel()
	b := &build{ctx: testkit.Context(t), dir: t.TempDir()}
	err := b.run(nil, os.Args[0], "-test.run=-no-such-flag-", "-no-such-flag")
	testkit.Contains(t, err, filepath.Base(os.Args[0]), "no-such-flag", "exit status")
}

// TestUnreadableTable has a README without the lines around the table, and one
// whose table lacks a row.
func TestUnreadableTable(t *testing.T) {
	t.Parallel()
	_, err := parseTable("no table here")
	testkit.Contains(t, err, tableFile, "place for the table")

	whole := newTable()
	for _, l := range languages {
		whole.heading[l.name] = l.name
		for _, s := range situations {
			whole.set(l, s.title, "cell of "+l.name)
		}
	}
	whole = whole.over(whole)
	text := whole.String()
	cut := strings.Replace(text, "| port closed |", "| port open |", 1)
	old, err := parseTable(tableBegin + cut + tableEnd)
	if err != nil {
		t.Fatal(err)
	}
	if got := diff(cut, whole.over(old).String()); len(got) != 2 {
		t.Errorf("%q differ: want the row that is missing and the one that is unknown", got)
	}
	if got := diff(text, whole.over(whole).String()); len(got) != 0 {
		t.Errorf("%q differ: want no difference", got)
	}
}
