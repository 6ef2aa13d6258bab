package attempt

import (
	"testing"
	"unsafe"
)

// TestSizes checks that a ledger fills four cache lines, as aligned as memory of that
// size is, that what the reading goroutine looks at is in the first of them, and that
// what the end of an attempt needs is not.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes are those of 64-bit processors")
	}
	const line = 64
	if size := unsafe.Sizeof(Ledger{}); size > 4*line {
		t.Errorf("a ledger has %d bytes: must be at most %d", size, 4*line)
	}
	if offset := unsafe.Offsetof(Ledger{}.first); offset != 0 {
		t.Errorf("the first attempt is at %d: must be at 0, where a cache line begins", offset)
	}
	if end := unsafe.Offsetof(Attempt{}.picker) + unsafe.Sizeof(Attempt{}.picker); end > line {
		t.Errorf("what the reading goroutine looks at ends at %d: must be in the first %d bytes", end, line)
	}
	for name, offset := range map[string]uintptr{
		"ledger": unsafe.Offsetof(Attempt{}.ledger), "stream": unsafe.Offsetof(Attempt{}.stream),
		"more": unsafe.Offsetof(Attempt{}.more), "ended": unsafe.Offsetof(Attempt{}.ended), "outcome": unsafe.Offsetof(Attempt{}.outcome),
	} {
		if offset < line {
			t.Errorf("%s, which the end of an attempt needs, is at %d: must not be in the first %d bytes", name, offset, line)
		}
	}
}
