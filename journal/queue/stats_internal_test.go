package queue

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
)

// A search for the oldest of very many entries holds the readers' lock for a chunk at a time, so other
// callers get it in between.
func TestSearchLetsReadersIn(t *testing.T) {
	p := &Queue{Readers: NewReaders(), index: pending.New()}
	id := func(i int) ID { return ID{Namespace: "ns", Key: fmt.Sprint(i)} }
	for i := range 200_000 {
		at := float64(i + 1)
		p.index.Restore(id(i), record.Pending{Seq: uint64(i + 1), Op: Put, UpdatedAt: at, Since: at, CreatedAt: at})
	}
	p.index.Drop(p.index.Get(id(0)))
	space := p.index.Space("ns")
	held, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		p.findOldest(space)
	}()
	for searching := true; searching; {
		waited := !p.Readers.TryLock() // for a step
		if waited {
			p.Readers.Lock()
		}
		if since, begun := space.Oldest(); waited && begun && since != 2 {
			held++
		}
		runtime.Gosched() // the search waits for the lock
		p.Readers.Unlock()
		select {
		case <-ended:
			searching = false
		default:
		}
	}
	if held < 5 {
		t.Errorf("others had the lock %d times between two steps", held)
	}
	if since, exact := space.Oldest(); since != 2 || !exact {
		t.Errorf("oldest is %v, exact: %v", since, exact)
	}
}
