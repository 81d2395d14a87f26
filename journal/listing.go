package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// ListingFill takes upstream's listing of a namespace into the journal. It is begun
// before upstream is asked, so that the writes that settle meanwhile are laid over
// the answer, which may have been made before them (contract 8).
type ListingFill struct {
	j         *Journal
	namespace string
	startedAt float64
	settled   []settledRow // guarded by j.commitMu, in the order of settling
	overtaken bool         // likewise; what was taken or forgotten meanwhile is newer
}

// settledRow is an entry's state that became known while a listing was under way.
type settledRow struct {
	row     Row
	gone    bool
	arrived bool // by a write of ours, just now
}

// BeginListing is to be followed by Commit or Cancel.
func (j *Journal) BeginListing(namespace string) *ListingFill {
	f := &ListingFill{j: j, namespace: namespace, startedAt: unixNow()}
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	j.observers[namespace] = append(j.observers[namespace], f)
	return f
}

// Cancel ends the fill without an answer.
func (f *ListingFill) Cancel() {
	f.j.commitMu.Lock()
	defer f.j.commitMu.Unlock()
	f.leave()
}

// leave is idempotent; the caller holds commitMu.
func (f *ListingFill) leave() {
	rest := slices.DeleteFunc(f.j.observers[f.namespace], func(o *ListingFill) bool { return o == f })
	if len(rest) == 0 {
		delete(f.j.observers, f.namespace)
		return
	}
	f.j.observers[f.namespace] = rest
}

// Commit makes upstream's rows, brought forward by what has settled since, the
// settled listing of the namespace. complete says that upstream had no more keys. It
// is durable when Commit returns, and not seen by readers before.
//
// Errors: [ErrChanged] when, since this one was begun, another listing of the namespace
// was taken, as that may show what came after this one, or an entry was buried in doubt
// (contract 7).
func (f *ListingFill) Commit(rows []Row, complete bool) error {
	j := f.j
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	t, done, err := f.begin(rows, complete)
	if err != nil {
		return fmt.Errorf("listing of %s: %w", f.namespace, err)
	}
	defer done()
	return j.await(t)
}

func (f *ListingFill) begin(rows []Row, complete bool) (t ticket, done func(), err error) {
	j := f.j
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	f.leave()
	if f.overtaken {
		return ticket{}, nil, ErrChanged
	}
	past, _, damaged, err := j.readListing(j.db, f.namespace)
	if err != nil {
		return ticket{}, nil, err
	}
	now, newest := f.bringForward(rows)
	vanished := []ID{{Namespace: f.namespace}}
	if complete {
		if vanished, err = j.notListed(vanished, now); err != nil {
			return ticket{}, nil, err
		}
	}
	batch, err := j.newBatch()
	if err != nil {
		return ticket{}, nil, err
	}
	if damaged {
		err = j.dropListing(batch, f.namespace)
	}
	for _, id := range vanished[1:] {
		err = errors.Join(err, batch.Delete(entryKey(settledPrefix, id), nil))
	}
	if err = errors.Join(err, f.write(batch, past.Rows, now, header{f.startedAt, newest, complete})); err != nil {
		return ticket{}, nil, errors.Join(err, batch.Close())
	}
	done = j.hideWhileFilling(vanished...)
	if err := j.apply(batch, pebble.NoSync); err != nil {
		done()
		return ticket{}, nil, err
	}
	for _, other := range j.observers[f.namespace] {
		other.overtaken = true
	}
	return j.join(), done, nil
}

// notListed adds to ids the entries with a settled copy that a complete listing does
// not show: upstream has lost them, and a read must not bring back what a listing has
// shown to be gone (contract 7).
func (j *Journal) notListed(ids []ID, now map[string]Row) ([]ID, error) {
	prefix := within(settledPrefix, ids[0].Namespace)
	err := each(j.db, prefix, func(key, _ []byte) error {
		name := string(key[len(prefix):])
		if _, ok := now[name]; !ok {
			ids = append(ids, ID{Namespace: ids[0].Namespace, Key: name})
		}
		return nil
	})
	return ids, err
}

// bringForward lays what became known meanwhile over upstream's rows. A write that
// settled arrived later than upstream's other rows, as far as can be told.
func (f *ListingFill) bringForward(rows []Row) (now map[string]Row, newest float64) {
	now = make(map[string]Row, len(rows))
	for _, r := range rows {
		now[r.Key] = r
		newest = max(newest, r.UpdatedAt)
	}
	for _, s := range f.settled {
		if s.gone {
			delete(now, s.row.Key)
			continue
		}
		s.row.UpdatedAt = max(s.row.UpdatedAt, now[s.row.Key].UpdatedAt)
		if s.arrived {
			s.row.UpdatedAt = max(s.row.UpdatedAt, newest+tick)
		}
		now[s.row.Key] = s.row
		newest = max(newest, s.row.UpdatedAt)
	}
	return now, newest
}

// write turns the past rows into the present ones, touching only what differs. A
// row's time never goes back (contract 19).
func (f *ListingFill) write(batch *pebble.Batch, past []Row, now map[string]Row, h header) error {
	for _, old := range past {
		row, ok := now[old.Key]
		if !ok {
			if err := batch.Delete(rowKey(f.namespace, old.Key), nil); err != nil {
				return err
			}
			continue
		}
		row.UpdatedAt = max(row.UpdatedAt, old.UpdatedAt)
		h.newest = max(h.newest, row.UpdatedAt)
		if now[old.Key] = row; row == old {
			delete(now, old.Key)
		}
	}
	for _, row := range now {
		if err := setRow(batch, f.namespace, row); err != nil {
			return err
		}
	}
	return setHeader(batch, f.namespace, h)
}

func rowKey(namespace, key string) []byte {
	return entryKey(rowPrefix, ID{Namespace: namespace, Key: key})
}

func setRow(batch *pebble.Batch, namespace string, row Row) error {
	key := rowKey(namespace, row.Key)
	return batch.Set(key, seal(key, appendRow(nil, row)), nil)
}

func setHeader(batch *pebble.Batch, namespace string, h header) error {
	key := headerKey(namespace)
	return batch.Set(key, seal(key, appendHeader(nil, h)), nil)
}

// bringRow brings the namespace's listing, if there is one, and those under way
// forward by what is known of one entry. The caller holds commitMu.
//
// A write that has just arrived is newer than all that was listed before, whatever
// the clocks here and upstream say.
func (j *Journal) bringRow(batch *pebble.Batch, namespace string, s settledRow) error {
	for _, f := range j.observers[namespace] {
		f.settled = append(f.settled, s)
	}
	h, listed, err := j.headerToChange(batch, namespace)
	if err != nil || !listed {
		return err
	}
	key := rowKey(namespace, s.row.Key)
	if s.gone {
		return batch.Delete(key, nil)
	}
	if s.arrived {
		s.row.UpdatedAt = max(s.row.UpdatedAt, h.newest+tick)
	}
	_, err = get(j.db, key, func(body []byte) error {
		old, err := decodeRow(s.row.Key, body)
		s.row.UpdatedAt = max(s.row.UpdatedAt, old.UpdatedAt)
		return err
	})
	if _, err := j.spare(err); err != nil {
		return err
	}
	h.newest = max(h.newest, s.row.UpdatedAt)
	return errors.Join(setRow(batch, namespace, s.row), setHeader(batch, namespace, h))
}

// forgetRow takes an entry out of the namespace's listing, as nobody knows what upstream
// holds of it. The listing says from then on that it lacks keys, and is so old that
// upstream is asked for another as soon as it can be. Those under way may have been made
// before what readers have seen since, and are dropped. The caller holds commitMu.
func (j *Journal) forgetRow(batch *pebble.Batch, id ID) error {
	for _, f := range j.observers[id.Namespace] {
		f.overtaken = true
	}
	h, listed, err := j.headerToChange(batch, id.Namespace)
	if err != nil || !listed {
		return err
	}
	h.fetchedAt, h.complete = 0, false
	return errors.Join(batch.Delete(rowKey(id.Namespace, id.Key), nil), setHeader(batch, id.Namespace, h))
}

func readHeader(r pebble.Reader, namespace string) (h header, ok bool, err error) {
	ok, err = get(r, headerKey(namespace), func(body []byte) (err error) {
		h, err = decodeHeader(body)
		return err
	})
	return h, ok, err
}

// headerToChange reads the header of a listing that is about to be brought forward. A
// damaged one is no listing any more.
func (j *Journal) headerToChange(batch *pebble.Batch, namespace string) (header, bool, error) {
	h, ok, err := readHeader(j.db, namespace)
	damaged, err := j.spare(err)
	if damaged {
		err = j.dropListing(batch, namespace)
	}
	return h, ok, err
}

// dropListing removes a listing, however damaged its records are.
func (j *Journal) dropListing(batch *pebble.Batch, namespace string) error {
	err := batch.Delete(headerKey(namespace), nil)
	return errors.Join(err, each(j.db, within(rowPrefix, namespace), func(key, _ []byte) error {
		return batch.Delete(key, nil)
	}))
}
