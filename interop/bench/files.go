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
