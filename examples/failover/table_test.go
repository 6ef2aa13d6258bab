package main

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// row is what the table says about an RPC, but for its time and address.
type row struct{ number, cluster, attempt, status string }

var rowPattern = regexp.MustCompile(`^ {3} {0,2}(\d+) {2}(\S+) +(\S+) +(\d+|-) +\d+\.\d\d ms {2}(\S.*)$`)

// rows returns the rows among the lines of a text, and the other lines. An
// address is there if and only if a cluster is.
func rows(t *testing.T, text string) (found []row, others []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		m := rowPattern.FindStringSubmatch(line)
		if m == nil {
			others = append(others, line)
			continue
		}
		found = append(found, row{m[1], m[2], m[4], m[5]})
		if (m[2] == unknown) != (m[3] == unknown) {
			t.Errorf("row %q: want both a cluster and its address, or neither", line)
		}
	}
	return found, others
}

// oneLine undoes line breaks and indentation.
func oneLine(lines ...string) string {
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

// checkAlignment checks that what stands under a column's title is in line with
// it, and that no line ends with a space.
func checkAlignment(t *testing.T, text string) {
	t.Helper()
	var header string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line %q ends with a space", line)
		}
		if strings.Contains(line, "CLUSTER") {
			header = line
		}
		m := rowPattern.FindStringSubmatchIndex(line)
		if m == nil {
			continue
		}
		for _, c := range []struct {
			title       string
			titleAt, at int
		}{
			{"RPC", strings.Index(header, "RPC") + len("RPC"), m[3]},
			{"CLUSTER", strings.Index(header, "CLUSTER"), m[4]},
			{"ADDRESS", strings.Index(header, "ADDRESS"), m[6]},
			{"ATTEMPT", strings.Index(header, "ATTEMPT") + len("ATTEMPT"), m[9]},
			{"TIME", strings.Index(header, "TIME") + len("TIME"), m[10] - len("  ")},
			{"STATUS", strings.Index(header, "STATUS"), m[10]},
		} {
			if c.titleAt != c.at {
				t.Errorf("%s is at %d, and its column at %d:\n%s\n%s", c.title, c.titleAt, c.at, header, line)
			}
		}
	}
}

// TestOutputFails has the command's output go where it cannot be written.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	full := writerFunc(func([]byte) (int, error) { return 0, errors.New("disk full") })
	up := startServer(t, "up")
	for _, args := range [][]string{nil, {"-targets", up.Addr, "-n", "0", "-every", "1ms"}} {
		var stderr bytes.Buffer
		if code := run(testkit.Context(t), args, full, &stderr); code != demo.ExitFailed || stderr.String() != "failover: disk full\n" {
			t.Errorf("%v: exit code %d, stderr %q: want %d and the error", args, code, stderr.String(), demo.ExitFailed)
		}
	}
}
