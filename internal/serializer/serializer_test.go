package serializer

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestOrder has callbacks scheduled while others run, from within one of them, and when
// all are done: they run in that order, one at a time.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			s       Serializer
			running sync.Mutex
			order   []int
		)
		note := func(n int) func() {
			return func() {
				if !running.TryLock() {
					t.Errorf("callback %d runs beside another", n)
					return
				}
				defer running.Unlock()
				order = append(order, n)
			}
		}
		hold := make(chan struct{})
		s.Schedule(func() {
			<-hold
			note(1)()
			s.Schedule(note(4))
		})
		s.Schedule(note(2))
		s.Schedule(note(3))
		synctest.Wait()
		if len(order) != 0 {
			t.Errorf("%v ran while the first callback did", order)
		}
		close(hold)
		synctest.Wait()
		s.Schedule(note(5))
		synctest.Wait()
		if want := []int{1, 2, 3, 4, 5}; !slices.Equal(order, want) {
			t.Errorf("order %v: want %v", order, want)
		}
	})
}

// TestAtOnce has many goroutines schedule: nothing is lost, and what one of them
// schedules runs in its order.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, each = 8, 200
		var s Serializer
		var got [goroutines][]int
		for g := range goroutines {
			go func() {
				for i := range each {
					s.Schedule(func() { got[g] = append(got[g], i) })
				}
			}()
		}
		synctest.Wait()
		for g, list := range got {
			if len(list) != each || !slices.IsSorted(list) {
				t.Errorf("goroutine %d: %v", g, list)
			}
		}
	})
}

// TestLocked schedules with a lock held that the callback takes.
func TestLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Serializer
		var mu sync.Mutex
		done := false
		mu.Lock()
		s.Schedule(func() {
			mu.Lock()
			defer mu.Unlock()
			done = true
		})
		mu.Unlock()
		synctest.Wait()
		if !done {
			t.Error("the callback did not run")
		}
	})
}
