//go:build !race

package composite_test

const modelRaceDetector = false
