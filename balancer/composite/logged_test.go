package composite

import (
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc/grpclog"
)

// Infos and Warnings are all that this package has logged since the tests began;
// Infos has the warnings too. gRPC's logger is global and may not be replaced while
// it is in use, so that tests which run at once share it, and tell their lines
// apart by names that no other has.
var Infos, Warnings LogLines

func init() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(&Infos, &Warnings, os.Stderr))
}

// LogLines keeps the lines of the log component "composite". It is safe for
// concurrent use.
type LogLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *LogLines) Write(p []byte) (int, error) {
	if line := string(p); strings.Contains(line, "[composite]") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}
	return len(p), nil
}

// With returns the lines that contain text.
func (l *LogLines) With(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
