package testkit

import (
	"bytes"
	"context"
	"io"
)

// Command calls the main function of a command, and returns its exit code and what it
// has written.
func Command(ctx context.Context, run func(ctx context.Context, args []string, stdout, stderr io.Writer) int, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}
