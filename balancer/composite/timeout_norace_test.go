//go:build !race

package composite_test

const raceEnabled = false
