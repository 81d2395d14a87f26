package journal

import (
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// removal removes some settled copies, or one listing. Their entries go on counting.
type removal struct {
	*evictor
	of     []copyOnDisk
	unlock func() // releases the copies lock, if it is a listing
	byHand bool   // a person has asked for it: suspect namespaces too

	removed int
	bytes   int64
}

// Fill leaves what is kept of suspect namespaces, and the copies of entries with a pending write,
// which takes its created_at from the copy.
func (r *removal) Fill(tx *store.Tx) error {
	r.pending.readers.RLock()
	defer r.pending.readers.RUnlock()
	for _, c := range r.of {
		switch {
		// guard 9.56
		case !r.byHand && r.copies.trust.isSuspect(c.id.Namespace): // nobody else may have it
			continue
		case c.id.Key == "":
			dropListing(tx, c.id.Namespace)
		case r.pending.waits(c.id): // guard 19.10
			continue
		default:
			tx.Delete(record.EntryKey(record.SettledPrefix, c.id))
		}
		r.copies.sizes.forgot(c.id.Namespace) // guard 18.23
		r.removed, r.bytes = r.removed+1, r.bytes+c.size
	}
	return nil
}

// Applied releases the copies lock: its next holder, which may bring the listing forward, finds it
// gone.
func (r *removal) Applied() { r.unlock() }

// Durable has nothing left to show.
func (*removal) Durable() {}
