package composite

import (
	"testing"
	"time"
)

// TestDurationOfShownTrail: of attempts that run at once the last to end counts.
func TestDurationOfShownTrail(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	shown := shownTrail("/s/m", Trail{Attempts: []Attempt{
		{Number: 1, Start: start, Duration: 5 * time.Second},
		{Number: 2, Start: start.Add(time.Second), Duration: time.Second},
	}}, 0, nil)
	if shown.Duration != 5 {
		t.Errorf("it took %v s: want 5", shown.Duration)
	}
}
