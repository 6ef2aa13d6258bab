package inspect

import (
	"slices"
	"sync"
)

// maxSingles is how many of a channel's trails may be of RPCs that failed on
// their only attempt: they must not push out those that moved on.
const maxSingles = 8

// Trails are the latest trails of a channel. The zero value is ready for use, and
// is safe for concurrent use.
type Trails struct {
	mu   sync.Mutex
	list []*Trail // the oldest first
}

// Put keeps a trail. One that was put for the same RPC before is replaced; old is
// what Put returned then, or nil.
func (r *Trails) Put(old *Trail, t Trail) *Trail {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old != nil {
		*old = t
		return old
	}
	if isSingle(&t) {
		r.dropLocked(maxSingles, isSingle)
	}
	r.dropLocked(MaxTrails, func(*Trail) bool { return true })
	r.list = append(r.list, &t)
	return &t
}

// dropLocked drops the oldest trail of a kind if there are so many.
func (r *Trails) dropLocked(limit int, kind func(*Trail) bool) {
	n := 0
	for _, t := range r.list {
		if kind(t) {
			n++
		}
	}
	if n < limit {
		return
	}
	i := slices.IndexFunc(r.list, kind)
	r.list = slices.Delete(r.list, i, i+1)
}

// Latest returns the trails, the latest first.
func (r *Trails) Latest() []Trail {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Trail, 0, len(r.list))
	for _, t := range slices.Backward(r.list) {
		list = append(list, *t)
	}
	return list
}

func isSingle(t *Trail) bool { return len(t.Attempts) < 2 }
