package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// files are where results are written, each "" if it is not.
type files struct {
	docs, json, bench string
}

// prepare makes the folders, so that what cannot be written is known before all is
// measured.
func (f files) prepare() error {
	folders := []string{f.docs}
	for _, name := range []string{f.json, f.bench} {
		if name != "" {
			folders = append(folders, filepath.Dir(name))
		}
	}
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // for all to read
			return err
		}
	}
	return nil
}

func (f files) write(r *results) error {
	if f.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := write(f.json, string(text)+"\n"); err != nil {
			return err
		}
	}
	if f.bench != "" {
		if err := write(f.bench, benchText(r)); err != nil {
			return err
		}
	}
	if f.docs == "" {
		return nil
	}
	if err := write(filepath.Join(f.docs, "benchmarks.svg"), picture(r)); err != nil {
		return err
	}
	var page strings.Builder
	page.WriteString(pageHead + "\n")
	if err := writeText(&page, r); err != nil {
		return err
	}
	page.WriteString("\n" + pageFoot)
	return write(filepath.Join(f.docs, "benchmarks.md"), page.String())
}

func write(name, text string) error {
	return os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // for all to read
}
