// Package serializer runs callbacks one after another, in the order in which
// they were scheduled, on a goroutine that exists only while there are any.
package serializer

import "sync"

// Serializer is ready for use as its zero value, and safe for concurrent use.
type Serializer struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

// Schedule has f run after everything that was scheduled before it. It does not
// wait and never runs f itself, so that it may be called with locks held and
// from within a callback.
func (s *Serializer) Schedule(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if !s.running {
		s.running = true
		go s.run()
	}
}

func (s *Serializer) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running = false
			s.queue = nil
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
	}
}
