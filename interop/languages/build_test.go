package languages

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

// buildTime is how long all of a language's installation may take. Rust on a busy
// machine takes minutes.
const buildTime = 15 * time.Minute

// descriptorFile has the definitions of the test service in a build's folder.
const descriptorFile = "descriptors.binpb"

// build makes a server in a folder of its own.
type build struct {
	ctx context.Context //nolint:containedctx // it lives as long as the build
	dir string
}

// buildInto builds the server elsewhere and moves it to dir when it is complete,
// so that an interrupted build is never taken for a server.
func (l *language) buildInto(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	folder, err := fs.Sub(sources, l.folder())
	if err != nil {
		return err
	}
	if err := os.CopyFS(temporary, folder); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temporary, descriptorFile), descriptors(), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	if err := l.build(&build{ctx: ctx, dir: temporary}); err != nil {
		return err
	}
	if err := os.Rename(temporary, dir); err != nil {
		if _, missing := os.Stat(dir); missing != nil {
			return err
		}
		// Somebody else built it meanwhile.
	}
	return nil
}

// run runs a program of the build. Its output is in the error if it fails.
func (b *build) run(env []string, name string, args ...string) error {
	cmd := exec.CommandContext(b.ctx, name, args...) //nolint:gosec // a tool of the list
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), env...)
	tool.EndWithParent(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

func (b *build) path(name string) string { return filepath.Join(b.dir, name) }

func buildPython(b *build) error {
	return b.run(nil, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--target", "lib", "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", "requirements.txt")
}

func buildJava(b *build) error {
	if err := b.run(nil, "mvn", "--batch-mode", "--quiet", "--no-transfer-progress",
		"dependency:copy-dependencies", "-DoutputDirectory=lib"); err != nil {
		return err
	}
	return b.run(nil, "javac", "-cp", "lib/*", "-d", "classes", "Server.java")
}

func buildNode(b *build) error {
	return b.run(nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
}

// buildRust restores in the lock file what is not committed: where its packages
// come from, which is where Cargo takes them from by itself.
func buildRust(b *build) error {
	if err := b.run(nil, "cargo", "generate-lockfile", "--quiet"); err != nil {
		return err
	}
	fresh, err := os.ReadFile(b.path("Cargo.lock"))
	if err != nil {
		return err
	}
	_, source, found := strings.Cut(string(fresh), "\nsource = ")
	if !found {
		return fmt.Errorf("no source in a new Cargo.lock")
	}
	pins, err := os.ReadFile(b.path("pins.lock"))
	if err != nil {
		return err
	}
	lock := strings.ReplaceAll(string(pins), "\nchecksum = ", "\nsource = "+firstLine(source)+"\nchecksum = ")
	if err := os.WriteFile(b.path("Cargo.lock"), []byte(lock), 0o600); err != nil { //nolint:gosec // in the build's own folder
		return err
	}
	if err := b.run([]string{"DESCRIPTORS=" + b.path(descriptorFile), "CARGO_TARGET_DIR=" + b.path("target")},
		"cargo", "build", "--quiet", "--locked"); err != nil {
		return err
	}
	if err := os.Rename(b.path("target/debug/interop-server"), b.path("interop-server")); err != nil {
		return err
	}
	return os.RemoveAll(b.path("target"))
}
