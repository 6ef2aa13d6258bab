// Package inspect is where the channels of the process that have the policy
// "composite" can be found and looked into. The policy puts them in, and package
// debugz shows them. Until somebody watches, nothing is counted and no trail kept.
package inspect

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Source is what can be looked into: the policy of one channel. Its methods are
// safe for concurrent use, and may be called after it was removed.
type Source interface {
	// Inspect describes the channel as it is now, or returns false if there is
	// nothing to tell yet.
	Inspect() (Channel, bool)
	// Watched is called once, when the first watcher comes: from now on picks
	// are counted and trails kept.
	Watched()
}

var (
	watched atomic.Pointer[time.Time] // since when somebody watches; nil: nobody

	mu      sync.Mutex // guards what follows
	sources = make(map[Source]int64)
	last    int64
)

// Add makes a source known until it is removed.
func Add(s Source) {
	mu.Lock()
	defer mu.Unlock()
	last++
	sources[s] = last
}

// Remove forgets a source.
func Remove(s Source) {
	mu.Lock()
	defer mu.Unlock()
	delete(sources, s)
}

// Watching tells whether somebody watches.
func Watching() bool { return watched.Load() != nil }

// Watch has picks counted and trails kept, for the rest of the process.
func Watch() {
	now := time.Now()
	if !watched.CompareAndSwap(nil, &now) {
		return
	}
	for _, s := range all() {
		s.source.Watched()
	}
}

// numbered is a source with the number that it keeps.
type numbered struct {
	source Source
	number int64
}

// all returns the sources, the oldest first.
func all() []numbered {
	mu.Lock()
	defer mu.Unlock()
	list := make([]numbered, 0, len(sources))
	for s, n := range sources {
		list = append(list, numbered{s, n})
	}
	slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	return list
}

// Now describes all channels of the process, MaxChannels of them at the most.
func Now() Process {
	p := Process{Time: time.Now(), Channels: []Channel{}}
	if since := watched.Load(); since != nil {
		p.Since = *since
	}
	for _, s := range all() {
		if len(p.Channels) == MaxChannels {
			p.ChannelsOmitted++
			continue
		}
		if c, ok := s.source.Inspect(); ok {
			c.ID = s.number
			p.Channels = append(p.Channels, c)
		}
	}
	return p
}
