package memory

import (
	"context"
	"sync"

	"github.com/botwired/botwired/journal"
)

// turns let those who change one entry go one after the other, in the order in which they came: of
// many who try at the same time, all but one would have to try again, and some again and again.
type turns struct {
	mu   sync.Mutex // guards last
	last map[journal.ID]chan struct{}
}

func newTurns() *turns { return &turns{last: make(map[journal.ID]chan struct{})} }

// await returns when it is the caller's turn, which ends with done. Its error is ctx's.
func (t *turns) await(ctx context.Context, id journal.ID) (done func(), err error) {
	mine := make(chan struct{})
	t.mu.Lock()
	before := t.last[id]
	t.last[id] = mine
	t.mu.Unlock()
	end := sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.last[id] == mine {
			delete(t.last, id)
		}
		close(mine)
	})
	if before == nil {
		return end, nil
	}
	select {
	case <-before:
		return end, nil
	case <-ctx.Done():
		go func() { // those behind still wait for those before
			<-before
			end() // not done, which the return below has set to nil
		}()
		return nil, ctx.Err()
	}
}
