package journal

import (
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// MarkSent records, durably, that a write to the entry may reach upstream from now on, and that
// upstream may yet carry out earlier requests, whose results are alsoMayLand. After a crash such an
// entry is [Journal.InDoubt]. MarkSent returns [ErrFull] while the disk may lack the room to record the
// outcome: the caller must not send the write yet.
func (j *Journal) MarkSent(w Write, alsoMayLand ...Content) error {
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	j.store.Look()
	if j.store.Critical() { // guard 3.6
		return ErrFull
	}
	mark := record.Sent{Seq: w.Seq, Contents: []Content{ContentOf(w.Op, w.Value)}} // guard 14.15
	for _, c := range alsoMayLand {
		if !slices.Contains(mark.Contents, c) {
			mark.Contents = append(mark.Contents, c)
		}
	}
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		setSent(tx, w.ID, &mark)
		return nil
	}))
}

func setSent(tx *store.Tx, id ID, mark *record.Sent) {
	key := record.EntryKey(record.SentPrefix, id)
	tx.Set(key, record.EncodeSent(key, mark))
}

// marked returns the sent mark of a write's entry; without a mark, it has no contents. Only the attempt
// at the entry, which calls this, changes the mark.
func marked(s *store.Store, w Write) (*record.Sent, error) {
	mark := &record.Sent{Seq: w.Seq}
	_, err := store.Get(s.DB(), record.EntryKey(record.SentPrefix, w.ID), func(body []byte) (err error) {
		*mark, err = record.DecodeSent(body) // guard 14.16
		return err
	})
	return mark, err
}

// UnmarkSent removes a sent mark: the caller knows that the attempt did not reach upstream. A crash may
// bring the mark back; the entry is then [Journal.InDoubt].
func (j *Journal) UnmarkSent(id ID) error {
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	return j.store.Later(func(tx *store.Tx) error {
		tx.Delete(record.EntryKey(record.SentPrefix, id))
		return nil
	})
}

// Doubtful is an entry with an unanswered write of an earlier process, which upstream may hold or
// may yet carry out.
type Doubtful struct {
	ID
	// Contents are the results of that process's requests; none if the journal was recovered from damage.
	Contents []Content
}

// InDoubt returns the entries that are marked as sent. Before the caller sends anything, these are the
// entries with an unanswered write of an earlier process.
func (j *Journal) InDoubt() ([]Doubtful, error) {
	if err := j.store.Acquire(); err != nil {
		return nil, err
	}
	defer j.store.Release()
	var entries []Doubtful
	err := store.ScanPrefix(j.store.DB(), []byte(record.SentPrefix), func(key, body []byte, _ uint32) error {
		id, err := record.ParseEntryKey(record.SentPrefix, key)
		if err != nil {
			return err
		}
		mark, err := record.DecodeSent(body)
		entries = append(entries, Doubtful{ID: id, Contents: mark.Contents})
		return err
	})
	return entries, err
}
