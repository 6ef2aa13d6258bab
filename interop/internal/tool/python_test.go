package tool

import (
	"archive/zip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// offline makes a package that pip finds in a folder, and nowhere else, and gives
// the test a cache of its own.
func offline(t *testing.T) PythonPackage {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		Missing(t, "Python", "apt-get install python3", err)
	}
	p := PythonPackage{Name: "composite-nothing", Version: "1.0"}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "composite_nothing-1.0-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	const info = "composite_nothing-1.0.dist-info/"
	for _, file := range []struct{ name, text string }{
		{"composite_nothing/__init__.py", ""},
		{"composite_nothing/program", "#!/bin/sh\necho ran\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: composite-nothing\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "composite_nothing/__init__.py,,\ncomposite_nothing/program,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		h := &zip.FileHeader{Name: file.name}
		h.SetMode(0o755)
		entry, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write([]byte(file.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", dir)
	return p
}

// checkInstalled runs the package's program.
func checkInstalled(t *testing.T, site string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(site, "composite_nothing", "program")).Output() //nolint:gosec // what was installed
	if err != nil || string(out) != "ran\n" {
		t.Errorf("the program says %q, %v: want ran", out, err)
	}
}

// TestInstall has several processes, or what looks like them to the lock, install
// at once, and one find what an interrupted installation left.
func TestInstall(t *testing.T) {
	p := offline(t)
	if err := os.MkdirAll(filepath.Join(p.Folder(), "lib", "python3", "site-packages", "composite_nothing"), 0o750); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	sites, errs := make([]string, 3), make([]error, 3)
	for i := range sites {
		all.Go(func() { sites[i], errs[i] = p.Install(context.Background()) })
	}
	all.Wait()
	for i, site := range sites {
		checkInstalled(t, site, errs[i])
		if site != sites[0] {
			t.Errorf("installed in %s, and in %s", sites[0], site)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Folder(), "bin", "python3")); err != nil {
		t.Errorf("no virtual environment: %v", err)
	}
	t.Setenv("PIP_FIND_LINKS", t.TempDir()) // it is not asked for again
	site, err := p.Install(context.Background())
	checkInstalled(t, site, err)
}

// TestInstallWithoutVirtualEnvironments has a Python that cannot make one, as
// Debian's cannot without a package of its own.
func TestInstallWithoutVirtualEnvironments(t *testing.T) {
	p := offline(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n[ \"$2\" = venv ] && { echo ensurepip is not available; exit 1; }\nexec " + python + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	site, err := p.Install(context.Background())
	checkInstalled(t, site, err)

	t.Setenv("PIP_FIND_LINKS", t.TempDir())
	other := PythonPackage{Name: p.Name, Version: "2.0"}
	_, err = other.Install(context.Background())
	if err == nil || !strings.Contains(err.Error(), "ensurepip is not available") || !strings.Contains(err.Error(), "composite-nothing==2.0") {
		t.Errorf("error %v: want both reasons", err)
	}
	if _, err := os.Stat(other.Folder()); err == nil {
		t.Errorf("%s was left behind", other.Folder())
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	p := PythonPackage{Name: "something", Version: "2.0"}
	want := "python3 -m venv " + p.Folder() + " && " + p.Folder() + "/bin/pip install something==2.0"
	if got := p.Command(); got != want {
		t.Errorf("command %q: want %q", got, want)
	}
}
