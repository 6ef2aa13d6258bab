package main

import (
	"fmt"
	"sync"
	"time"
)

// bucket is a token bucket, as rate limits of providers are: some prompts at once,
// and then one at an interval. It is safe for concurrent use.
type bucket struct {
	size  int
	every time.Duration

	mu   sync.Mutex    // guards the rest
	left time.Duration // each prompt costs as much as every
	at   time.Time     // that left is of
}

func newBucket(size int, every time.Duration) *bucket {
	return &bucket{size: size, every: every, left: time.Duration(size) * every}
}

// take takes the place of one prompt, if there is one.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		b.left = min(time.Duration(b.size)*b.every, b.left+now.Sub(b.at))
	}
	b.at = now
	if b.left < b.every {
		return false
	}
	b.left -= b.every
	return true
}

func (b *bucket) String() string {
	return fmt.Sprintf("%d prompts at once, then one each %v", b.size, b.every)
}
