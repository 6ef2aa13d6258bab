package tool

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// unzip unpacks a zip file into a folder, in the file's order.
func unzip(file, dir string) error {
	r, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for _, f := range r.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("%q is not a file's name", f.Name)
		}
		if f.FileInfo().IsDir() {
			continue
		}
		if err := unzipFile(f, filepath.Join(dir, f.Name)); err != nil { //nolint:gosec // the name is local
			return err
		}
	}
	return nil
}

func unzipFile(f *zip.File, name string) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, f.Mode().Perm()|0o600) //nolint:gosec // in the caller's folder
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	_, err = io.Copy(to, from) //nolint:gosec // a pinned package, of a known size
	return err
}
