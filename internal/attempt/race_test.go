//go:build race

package attempt

const raceEnabled = true
