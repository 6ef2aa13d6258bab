package main

import (
	"cmp"
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// module is whose versions are tried.
const module = "google.golang.org/grpc"

// version is a semantic version, as far as grpc-go's tags need it.
type version struct {
	major, minor, patch int
	pre                 string // "" for a release
}

// parse reads "v1.2.3" or "v1.2.3-pre".
func parse(text string) (version, bool) {
	rest, ok := strings.CutPrefix(text, "v")
	rest, pre, isPre := strings.Cut(rest, "-")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 || isPre == (pre == "") {
		return version{}, false
	}
	var n [3]int
	for i, part := range parts {
		var err error
		if n[i], err = strconv.Atoi(part); err != nil || n[i] < 0 {
			return version{}, false
		}
	}
	return version{n[0], n[1], n[2], pre}, true
}

// compare orders versions: a pre-release comes before its release.
func (v version) compare(w version) int {
	if order := cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor), cmp.Compare(v.patch, w.patch)); order != 0 {
		return order
	}
	switch {
	case v.pre == w.pre:
		return 0
	case v.pre == "":
		return 1
	case w.pre == "":
		return -1
	default:
		return strings.Compare(v.pre, w.pre)
	}
}

// before tells whether one version, which must be well-formed, is older than
// another.
func before(v, w string) bool {
	a, _ := parse(v)
	b, _ := parse(w)
	return a.compare(b) < 0
}

// published asks the module proxy for all versions.
func published(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-versions", module).Output()
	if err != nil {
		return nil, wrap("go list -m -versions "+module, err, nil)
	}
	return strings.Fields(string(out))[1:], nil
}

// choose returns, in order, the last release of each of the last minor versions, and
// the newest pre-release if there is no release yet that is newer.
func choose(all []string, minors int) []string {
	var known []string
	for _, v := range all {
		if _, ok := parse(v); ok {
			known = append(known, v)
		}
	}
	slices.SortFunc(known, func(a, b string) int {
		va, _ := parse(a)
		vb, _ := parse(b)
		return vb.compare(va)
	})
	var chosen []string
	var last version
	for i, text := range known {
		v, _ := parse(text)
		switch {
		case v.pre != "":
			if i == 0 {
				chosen = append(chosen, text)
			}
			continue
		case v.major == last.major && v.minor == last.minor:
			continue
		case minors == 0:
			slices.Reverse(chosen)
			return chosen
		}
		chosen, last = append(chosen, text), v
		minors--
	}
	slices.Reverse(chosen)
	return chosen
}
