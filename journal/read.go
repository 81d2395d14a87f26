package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Lookup says what is known here of an entry: its pending write, else its settled
// copy, else nothing. It sees every write that was acknowledged before it began.
func (j *Journal) Lookup(id ID) (State, error) {
	if err := j.enter(); err != nil {
		return State{}, err
	}
	defer j.leave()
	var missing uint64
	for {
		v, filling, err := j.visible(id)
		if err != nil {
			return State{}, err
		}
		if filling != nil {
			<-filling
			continue
		}
		if v == nil {
			state, err := j.settled(id)
			if err == nil && j.isFilling(id) {
				continue // the copy that was read may not be durable yet
			}
			return state, err
		}
		state, err := j.pendingState(id, v)
		if errors.Is(err, ErrSuperseded) && v.seq != missing {
			missing = v.seq // superseded or settled since the index was read
			continue
		}
		return state, lost(err)
	}
}

// lost is err, or [ErrCorrupt] for a record that is not in the store though the index,
// looked at once more, still says so: a write leaves both under one hold of mu.
func lost(err error) error {
	if errors.Is(err, ErrSuperseded) {
		return fmt.Errorf("%w: a pending write is missing", ErrCorrupt)
	}
	return err
}

// visible is the pending write that readers see, nil if there is none.
func (j *Journal) visible(id ID) (*version, chan struct{}, error) {
	if err := j.ensureKnown(id); err != nil {
		return nil, nil, err
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	if n := j.index.get(id); n != nil && n.visible.seq != 0 {
		v := n.visible
		return &v, nil, nil
	}
	return nil, j.filling[id], nil
}

func (j *Journal) isFilling(id ID) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.filling[id] != nil
}

// ensureKnown is faultIn for callers without commitMu.
func (j *Journal) ensureKnown(id ID) error {
	j.mu.RLock()
	known := j.index.known(id)
	j.mu.RUnlock()
	if known {
		return nil
	}
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.faultIn(id)
}

// pendingState reads the settled copy first: while the record of v is there, nothing
// that came after v has settled.
func (j *Journal) pendingState(id ID, v *version) (State, error) {
	state := State{
		Kind: Gone, Seq: v.seq, ListBytes: int(v.listBytes), CreatedAt: v.createdAt, UpdatedAt: v.updatedAt,
	}
	if v.op == Delete {
		return state, nil
	}
	if !v.afterDelete {
		settled, ok, err := j.observation(id)
		if err != nil {
			return State{}, err
		}
		if ok {
			state.CreatedAt = settled.CreatedAt
			state.UpdatedAt = max(state.UpdatedAt, settled.UpdatedAt)
		}
	}
	value, err := j.value(id, v.seq)
	if err != nil {
		return State{}, err
	}
	state.Kind, state.Value = Value, value
	return state, nil
}

// value reads the value of a pending write; ErrSuperseded says that it is gone.
func (j *Journal) value(id ID, seq uint64) (string, error) {
	var value string
	ok, err := get(j.db, pendingKey(id, seq), func(body []byte) error {
		_, bytes, err := decodePending(body)
		value = string(bytes)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("pending write %d to %s: %w", seq, id, err)
	}
	if !ok {
		return "", ErrSuperseded
	}
	return value, nil
}

// settled is the State of an entry that has no pending write.
func (j *Journal) settled(id ID) (State, error) {
	c, err := j.copyOf(id)
	if err != nil || !c.intact {
		return State{}, err
	}
	return settledState(c.Observation, c.confirmedAt), nil
}

// settledCopy is an entry's settled copy.
type settledCopy struct {
	Observation
	confirmedAt float64
	kept        bool // there is a record of it
	intact      bool // and it can be read
}

// copyOf reads an entry's settled copy.
func (j *Journal) copyOf(id ID) (c settledCopy, err error) {
	c.kept, err = get(j.db, entryKey(settledPrefix, id), func(body []byte) (err error) {
		c.Observation, c.confirmedAt, err = decodeSettled(body)
		return err
	})
	if err == nil {
		c.intact = c.kept
		return c, nil
	}
	damaged, err := j.spare(fmt.Errorf("settled copy of %s: %w", id, err))
	return settledCopy{kept: damaged}, err
}

func settledState(o Observation, confirmedAt float64) State {
	return State{
		Kind: Settled, Value: o.Value, ListBytes: o.ListBytes,
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, ConfirmedAt: fromUnix(confirmedAt),
	}
}

func (j *Journal) observation(id ID) (Observation, bool, error) {
	c, err := j.copyOf(id)
	return c.Observation, c.intact, err
}

// Newest returns the entry's pending write with its value, to be sent upstream; ok
// is false when the entry has none.
func (j *Journal) Newest(id ID) (w Write, ok bool, err error) {
	if err := j.enter(); err != nil {
		return Write{}, false, err
	}
	defer j.leave()
	var missing uint64
	for {
		v, _, err := j.visible(id)
		if err != nil || v == nil {
			return Write{}, false, err
		}
		value, err := j.value(id, v.seq)
		if errors.Is(err, ErrSuperseded) && v.seq != missing {
			missing = v.seq
			continue
		}
		if err != nil {
			return Write{}, false, lost(err)
		}
		return v.write(id, value), true, nil
	}
}

// write is the write that v is of.
func (v *version) write(id ID, value string) Write {
	return Write{
		ID: id, Seq: v.seq, Op: v.op, Value: value, ListBytes: int(v.listBytes), UpdatedAt: v.updatedAt,
		createdAt: v.createdAt, afterDelete: v.afterDelete,
	}
}

// VisitPending calls visit for the pending writes of a namespace, in no particular
// order: at least once for every one that was acknowledged before the call and is
// still pending when it returns. An entry that is written meanwhile may be visited
// with both writes. visit must not call the journal.
func (j *Journal) VisitPending(namespace string, visit func(Pending)) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	if err := j.ensureSpaceKnown(namespace); err != nil {
		return err
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.index.spaces[namespace]
	if s == nil {
		return nil
	}
	for n := s.oldest; n != nil; n = n.newer {
		visit(n.pending())
	}
	return nil
}

func (j *Journal) ensureSpaceKnown(namespace string) error {
	j.mu.RLock()
	whole := ID{Namespace: namespace}
	known := j.index.known(whole)
	j.mu.RUnlock()
	if known {
		return nil
	}
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.faultInUnder(within(pendingPrefix, namespace), whole)
}

// PendingList returns up to limit pending writes, those that have waited longest
// first, of one namespace or, with "", of all. While the index is being rebuilt it
// may not hold all.
func (j *Journal) PendingList(namespace string, limit int) []Pending {
	j.mu.RLock()
	defer j.mu.RUnlock()
	var heads []*node
	for name, s := range j.index.spaces {
		if s.oldest != nil && (namespace == "" || namespace == name) {
			heads = append(heads, s.oldest)
		}
	}
	return mergeByAge(heads, limit)
}

// Listing returns the settled listing of a namespace; ok is false when upstream was
// never asked for it, or the listing is damaged.
func (j *Journal) Listing(namespace string) (l Listing, ok bool, err error) {
	if err := j.enter(); err != nil {
		return Listing{}, false, err
	}
	defer j.leave()
	snapshot := j.durableSnapshot(ID{Namespace: namespace})
	l, ok, _, err = j.readListing(snapshot, namespace)
	return l, ok, errors.Join(err, snapshot.Close())
}

// durableSnapshot is a snapshot in which the listing of id is durable.
func (j *Journal) durableSnapshot(id ID) *pebble.Snapshot {
	for {
		j.mu.RLock()
		filling := j.filling[id]
		if filling == nil {
			defer j.mu.RUnlock()
			return j.db.NewSnapshot()
		}
		j.mu.RUnlock()
		<-filling
	}
}

func (j *Journal) readListing(r pebble.Reader, namespace string) (l Listing, ok, damaged bool, err error) {
	if l, ok, err = readListing(r, namespace); err != nil {
		damaged, err = j.spare(fmt.Errorf("listing of %s: %w", namespace, err))
		return Listing{}, false, damaged, err
	}
	return l, ok, false, nil
}

func readListing(r pebble.Reader, namespace string) (Listing, bool, error) {
	h, ok, err := readHeader(r, namespace)
	if err != nil || !ok {
		return Listing{}, false, err
	}
	l := Listing{FetchedAt: fromUnix(h.fetchedAt), Complete: h.complete}
	prefix := within(rowPrefix, namespace)
	err = scan(r, prefix, func(key, body []byte, _ uint32) error {
		row, err := decodeRow(string(key[len(prefix):]), body)
		l.Rows = append(l.Rows, row)
		return err
	})
	return l, err == nil, err
}
