//go:build !race

package attempt

const raceEnabled = false
