//go:build !linux

package main

import "testing"

// swallowConnects is what Linux can do.
func swallowConnects(testing.TB) string { return "" }
