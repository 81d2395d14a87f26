package journal

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Holdings counts what a journal keeps from one upstream, or for it.
type Holdings struct {
	Pending     int  // entries with a pending write
	DeadLetters int  // refused writes
	Copies      bool // settled copies, listings or sent marks
}

// Holdings looks into the store, also before [Journal.Run].
func (j *Journal) Holdings() (h Holdings, err error) {
	if err := j.store.Acquire(); err != nil {
		return h, err
	}
	defer j.store.Release()
	snapshot := j.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	var last ID
	found, err := store.Count(snapshot, func(id record.ID, _ record.Version) error {
		if id != last {
			h.Pending++
		}
		last = id
		return nil
	})
	h.DeadLetters = int(found.Dead)
	for _, prefix := range []string{record.SettledPrefix, record.HeaderPrefix, record.RowPrefix, record.SentPrefix} {
		if err == nil && !h.Copies {
			h.Copies, err = store.HoldsAny(snapshot, []byte(prefix))
			if prefix != record.SentPrefix && store.IsDamage(err) {
				h.Copies, err = true, nil
			}
		}
	}
	if err != nil {
		return h, refusedStart(j.opts.Dir, store.Classify(err))
	}
	return h, nil
}
