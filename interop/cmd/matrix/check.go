package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// result is what came out for a version.
type result struct {
	version string
	err     error    // it could not be built
	builds  bool     // the library builds, and it is known that its tests do not
	passed  int      // packages
	failed  []string // tests, without those that are known
	flaky   []string // tests that failed and passed when they were run again
	stale   []string // tests that should have failed
	took    time.Duration
}

// check tries a version in a copy of the module at root.
func check(ctx context.Context, root, v string, short bool, out io.Writer) (r result) {
	r.version = v
	began := time.Now()
	defer func() { r.took = time.Since(began).Round(time.Second) }()
	dir, err := os.MkdirTemp("", "matrix-")
	if err != nil {
		r.err = err
		return r
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := checker{dir: filepath.Join(dir, "module"), bin: filepath.Join(dir, "bin"), short: short, out: out, result: &r}
	for _, d := range differencesOf(v) {
		if d.env != "" {
			c.env = append(c.env, d.env)
		}
		if d.tests != nil {
			c.known = append(c.known, d.tests)
		}
		c.untested = c.untested || d.untested
	}
	if err := copyModule(root, c.dir); err != nil {
		r.err = err
		return r
	}
	if r.err = c.replace(ctx, v); r.err == nil {
		r.err = c.test(ctx)
	}
	return r
}

// checker works on a copy of the module.
type checker struct {
	dir, bin string
	short    bool
	env      []string
	known    []*regexp.Regexp // tests that fail
	untested bool             // the tests do not build
	out      io.Writer
	result   *result
}

// replace has the module use a version, as its users can: whatever else the module
// depends on stays, and what that asks for does not matter.
func (c *checker) replace(ctx context.Context, v string) error {
	if _, err := c.tool(ctx, "mod", "edit", "-replace="+module+"="+module+"@"+v); err != nil {
		return err
	}
	if _, err := c.tool(ctx, "mod", "tidy"); err != nil {
		return err
	}
	got, err := c.tool(ctx, "list", "-m", "-f", "{{.Replace.Version}}", module)
	if err == nil && got != v {
		err = fmt.Errorf("it got %s", got)
	}
	return err
}

// tool runs the go command and returns what it prints.
func (c *checker) tool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments of our own
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", wrap("go "+strings.Join(args, " "), err, []byte(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// wrap adds what a command printed to its error.
func wrap(command string, err error, stderr []byte) error {
	var exit *exec.ExitError
	if len(stderr) == 0 && errors.As(err, &exit) {
		stderr = exit.Stderr
	}
	return fmt.Errorf("%s: %w\n%s", command, err, stderr)
}

// test builds the packages, and runs the tests of each.
func (c *checker) test(ctx context.Context) error {
	library, err := c.tool(ctx, "list", "./balancer/...", "./resolver/...", "./proto/...")
	if err != nil {
		return err
	}
	if _, err := c.tool(ctx, append([]string{"build"}, strings.Fields(library)...)...); err != nil {
		return err
	}
	_, err = c.tool(ctx, "vet", "./...")
	if c.untested && ctx.Err() == nil {
		if c.result.builds = err != nil; !c.result.builds {
			c.result.stale = append(c.result.stale, "go vet")
		}
		return nil
	}
	if err != nil {
		return err
	}
	packages, err := c.tool(ctx, "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}", "./...")
	if err != nil {
		return err
	}
	for line := range strings.Lines(packages) {
		path, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || c.short && strings.Contains(path, "/examples/") {
			continue
		}
		if _, err := c.tool(ctx, "test", "-c", "-o", c.bin, path); err != nil {
			return err
		}
		if err := c.testPackage(ctx, path, dir); err != nil {
			return err
		}
	}
	return nil
}

// testPackage runs the tests of a package. What fails runs once more: the machine may
// be busy.
func (c *checker) testPackage(ctx context.Context, path, dir string) error {
	args := []string{"-test.v"}
	if c.short {
		args = append(args, "-test.short")
	}
	log, err := c.binary(ctx, dir, args...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o := read(log)
	var unknown []string
	for _, test := range o.failed {
		if !c.isKnown(test) {
			unknown = append(unknown, test)
		}
	}
	failedBefore := len(c.result.failed)
	for _, test := range unknown {
		again, err := c.binary(ctx, dir, "-test.v", "-test.run", pattern(test))
		if err == nil {
			c.result.flaky = append(c.result.flaky, path+"."+test)
			continue
		}
		c.result.failed = append(c.result.failed, path+"."+test)
		_, _ = fmt.Fprintln(c.out, tail(again, 40))
	}
	for _, test := range o.passed {
		if c.isKnown(test) {
			c.result.stale = append(c.result.stale, path+"."+test)
		}
	}
	if crashed(err, o) {
		c.result.failed = append(c.result.failed, fmt.Sprintf("%s: %v", path, err))
		_, _ = fmt.Fprintln(c.out, tail(log, 40))
	} else if len(c.result.failed) == failedBefore {
		c.result.passed++
	}
	_, _ = fmt.Fprintf(c.out, "%s: %d tests passed, %d failed, of which %d are known to\n", path, len(o.passed), len(o.failed), len(o.failed)-len(unknown))
	return nil
}

// crashed tells whether a test binary has ended with an error that is not that of a
// test: one that failed makes it exit with 1.
func crashed(err error, o outcome) bool {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return len(o.failed) == 0
	}
	return err != nil
}

// binary runs the test binary, which is killed when ctx ends.
func (c *checker) binary(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.bin, args...) //nolint:gosec // the binary that was built
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.WaitDelay = time.Second // its own servers may hold the pipe for a moment
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *checker) isKnown(name string) bool {
	for _, tests := range c.known {
		if tests.MatchString(name) {
			return true
		}
	}
	return false
}
