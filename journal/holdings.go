package journal

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Holdings is what a journal has of one upstream, or for it.
type Holdings struct {
	Pending     int  // entries with a pending write
	DeadLetters int  // refused writes
	Copies      bool // settled copies, listings or sent marks
}

// Holdings looks into the store, also before [Journal.Run].
func (j *Journal) Holdings() (h Holdings, err error) {
	if err := j.enter(); err != nil {
		return h, err
	}
	defer j.leave()
	snapshot := j.db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	var last ID
	err = scanPending(snapshot, []byte(pendingPrefix), func(id ID, _ version) error {
		if id != last {
			h.Pending++
		}
		last = id
		return nil
	})
	if err == nil {
		err = scanDead(snapshot, func(DeadLetter) { h.DeadLetters++ })
	}
	for _, prefix := range []string{settledPrefix, headerPrefix, rowPrefix, sentPrefix} {
		if err == nil && !h.Copies {
			h.Copies, err = holdsAny(snapshot, []byte(prefix))
		}
	}
	return h, storeError(err)
}

// holdsAny reports whether there is a record under a prefix.
func holdsAny(r pebble.Reader, prefix []byte) (bool, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return false, err
	}
	found := it.First()
	return found, errors.Join(it.Error(), it.Close())
}
