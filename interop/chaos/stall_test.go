package chaos

import (
	"sync"
	"time"
)

// stallMeter tells how late this process is: how much longer than asked for its
// goroutines sleep, all together. Its methods are safe for concurrent use.
type stallMeter struct {
	mu    sync.Mutex
	sum   time.Duration
	woken time.Time
}

const stallPeriod = 10 * time.Millisecond

// run measures until stop is closed.
func (m *stallMeter) run(stop <-chan struct{}) {
	for {
		m.note(time.Now())
		select {
		case <-stop:
			return
		case <-time.After(stallPeriod):
		}
	}
}

func (m *stallMeter) note(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.woken.IsZero() {
		m.sum += max(0, now.Sub(m.woken)-stallPeriod)
	}
	m.woken = now
}

// total is how late the process has been so far. It grows while somebody measures.
func (m *stallMeter) total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum + max(0, time.Since(m.woken)-stallPeriod)
}
