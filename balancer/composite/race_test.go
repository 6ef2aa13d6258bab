//go:build race

package composite

// RaceEnabled tells whether the race detector is at work.
const RaceEnabled = true
