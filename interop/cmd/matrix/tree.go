package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// copyModule copies a module's files without hidden folders. Modules below it come
// along, since tests read files of theirs.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir() && path != from && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path) //nolint:gosec // a file of the module
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600) //nolint:gosec // in a folder of our own
	})
}
