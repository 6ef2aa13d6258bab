package grpcsuite

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// grpcModule is grpc-go as a module, copied so that its own tests can be built with
// this module: they use what is internal to it.
type grpcModule struct{ dir string }

// copyModule copies the version of grpc-go that this module requires.
func copyModule(t *testing.T) grpcModule {
	t.Helper()
	source := strings.TrimSpace(run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/grpc"))
	core, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m := grpcModule{filepath.Join(t.TempDir(), "grpc")}
	if err := os.CopyFS(m.dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	run(t, m.dir, "chmod", "-R", "u+w", ".")
	run(t, m.dir, "go", "mod", "edit",
		"-require=github.com/grpc-composite/grpc-composite@v0.0.0",
		"-replace=github.com/grpc-composite/grpc-composite="+core)
	m.addHook(t)
	return m
}

// addHook has the channel pass the config of its policy through a function that
// tests set.
func (m grpcModule) addHook(t *testing.T) {
	t.Helper()
	m.edit(t, "balancer_wrapper.go", "		err := ccb.balancer.UpdateClientConnState(*ccs)\n", `
		if WrapBalancerConfig != nil {
			ccs.BalancerConfig = WrapBalancerConfig(ccs.BalancerConfig)
		}
`)
	hook := `package grpc

import "google.golang.org/grpc/serviceconfig"

var WrapBalancerConfig func(serviceconfig.LoadBalancingConfig) serviceconfig.LoadBalancingConfig
`
	m.write(t, "wrap_balancer_config.go", hook)
}

// edit inserts text before a line, of which there must be one.
func (m grpcModule) edit(t *testing.T, name, line, text string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), line); n != 1 {
		t.Fatalf("%s has the line %q %d times: this version of grpc-go needs another hook", name, line, n)
	}
	m.write(t, name, strings.Replace(string(source), line, text+line, 1))
}

func (m grpcModule) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil { //nolint:gosec // all names are of this package's own making
		t.Fatal(err)
	}
}

// wrap has the tests of a package use composite channels, with lazy clusters or
// others.
func (m grpcModule) wrap(t *testing.T, folder, packageName string, lazy bool) {
	t.Helper()
	text, err := os.ReadFile("testdata/zz_composite_test.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, filepath.Join(folder, "zz_composite_test.go"),
		strings.NewReplacer("PACKAGE", packageName, "LAZY", strconv.FormatBool(lazy)).Replace(string(text)))
}

// build compiles the tests of a folder.
func (m grpcModule) build(t *testing.T, folder string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "suite.test")
	run(t, m.dir, "go", "test", "-mod=mod", "-c", "-o", binary, "./"+folder)
	return binary
}

// run returns what a command prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := command(t.Context(), dir, name, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, cmd.Stderr)
	}
	return string(out)
}

// command returns a command that ends with ctx, and with it what it started.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the go command, and what it has built
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = dir
	cmd.Stderr = new(strings.Builder)
	return cmd
}
