package attempt

import "sync/atomic"

// flags are a set of things of which each is true from some time on. It is safe for
// concurrent use.
type flags[F ~uint32] struct{ word atomic.Uint32 }

func (f *flags[F]) has(flag F) bool { return f.word.Load()&uint32(flag) != 0 }

func (f *flags[F]) set(flag F) { f.word.Or(uint32(flag)) }
