package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Append appends the request's value to an entry's value, with separator in between, and answers like a
// PUT of the whole value. Among this daemon's callers no acknowledged append is lost (contract 5).
// Appends to one entry take turns.
func (m *Memory) Append(ctx context.Context, q *Request, separator string) (Result, error) {
	if q.Name != "" && q.named == nil {
		return m.once(ctx, *q, "append "+separator, func(ctx context.Context, q *Request) (Result, error) {
			return m.Append(ctx, q, separator)
		})
	}
	endTurn, err := m.turns.await(ctx, q.ID)
	if err != nil {
		return Result{}, err
	}
	defer endTurn()
	whole := *q
	whole.Release = func() { q.release(); endTurn() }
	return m.Update(ctx, &whole, func(item *cache.Item) (journal.NewWrite, error) {
		if err := q.refuseWrite(item); err != nil {
			return journal.NewWrite{}, err
		}
		value, err := appended(item, separator, q.Value)
		return NewPut(q.ID, value), err
	})
}

// Update reads an entry and makes the write that next returns. If somebody has written the entry
// meanwhile, it tries again.
func (m *Memory) Update(ctx context.Context, q *Request, next func(*cache.Item) (journal.NewWrite, error)) (r Result, err error) {
	err = unlessOvertaken(ctx, func() error {
		k, _, err := m.lookOrAsk(q.ID)
		if err != nil {
			return err
		}
		w, err := next(k.item)
		if err != nil {
			return err
		}
		r, err = m.write(ctx, q, w, asItIs(k.item)) // guard 5.14
		if isUnmet(err) {                           // another write came first
			err = errOvertaken
		}
		return err
	})
	return r, err
}

// appended returns an entry's value with text added. The separator comes between the two unless the value is
// empty.
func appended(item *cache.Item, separator, text string) (string, error) {
	now, _, exists, err := valueOf(item)
	if !exists || err != nil {
		return text, err
	}
	if now != "" {
		text = separator + text
	}
	if value := now + text; wire.CheckSize(value) == nil {
		return value, nil
	}
	return "", wire.Detail(statusTooLarge, fmt.Sprintf(
		"the value has %d characters, and %d more do not fit: BotWire takes at most 100000. Nothing was written: go on under another key",
		wire.CodePoints(now), wire.CodePoints(text)))
}

// valueOf returns the value and the updated_at, in Unix seconds, of the answer to a GET. exists is
// false if there is no entry.
func valueOf(item *cache.Item) (value string, updatedAt float64, exists bool, err error) {
	if item.Body == nil {
		return "", 0, false, nil
	}
	var entry struct {
		Value     string
		UpdatedAt float64 `json:"updated_at"`
	}
	err = json.Unmarshal(item.Body, &entry)
	return entry.Value, entry.UpdatedAt, true, err
}

func asItIs(item *cache.Item) Conditions {
	if item.Body == nil {
		return Conditions{noneMatch: tagList{given: true, any: true}}
	}
	return Conditions{match: tagList{given: true, tags: item.Tag[:1]}}
}

func isUnmet(err error) bool {
	refusal, ok := errors.AsType[*wire.Refusal](err)
	return ok && refusal.Status == statusPreconditionFailed
}

// turns let the appends to one entry take turns, in the order of arrival. If many tried at once, all but one
// would have to try again, and some again and again.
type turns struct {
	mu   sync.Mutex // guards last
	last map[journal.ID]chan struct{}
}

func newTurns() *turns { return &turns{last: make(map[journal.ID]chan struct{})} }

// await waits for the caller's turn; done ends it. Its error is ctx's.
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
		go func() { // later callers still wait for earlier ones
			<-before
			end() // not done, which the return below has set to nil
		}()
		return nil, ctx.Err()
	}
}
