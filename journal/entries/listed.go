package entries

import (
	"cmp"
	"maps"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// absentCopy is the settled copy of an entry that upstream no longer holds.
type absentCopy struct {
	id   ID
	past settledCopy
	held bool // upstream holds an older state
}

// listed is the change that records upstream's listing of a namespace.
type listed struct {
	*Entries
	queue.Hiding
	fill   *ListingFill
	unlock func() // releases the copies lock

	header  record.Header
	changed []Row           // rows that differ from the kept ones
	removed []string        // keys of rows to remove
	absent  []ID            // entries with a settled copy that upstream no longer holds, or holds in an older state that counts
	added   []ID            // entries that the previous listing did not have
	newer   []ID            // entries of which upstream lists a later state of another host's than was known here
	forgets []ID            // entries of which the newest known state goes
	held    map[string]bool // keys of absent that upstream holds in an older state
	older   int             // rows that upstream showed with an older time than before
	past    Suspect         // the state before this listing
	// replaces says that all kept rows go first: there are too many to remove, or they cannot be read.
	replaces bool
	unread   bool // some settled copies of the namespace cannot be read
	// dropped are the copies of absent, once they are read.
	dropped []absentCopy
	same    bool // nothing changes on disk
}

// prepare compares upstream's rows with the kept ones. The caller holds the copies lock.
func (l *listed) prepare(rows []Row, complete bool) error {
	shown := rows
	before, past, ok, err := l.kept(rows, complete)
	if err != nil {
		return err
	}
	if rows, err = l.compared(rows, past); err != nil {
		return err
	}
	now := l.fill.bringForward(rows)
	l.header = record.Header{FetchedAt: l.fill.startedAt, Complete: complete}
	if err = l.findAbsent(past, before, now, shown); err != nil {
		return err
	}
	if err = l.findForgets(now); err != nil { // guard 23.37
		return err
	}
	l.header.Newest = inOrder(now)
	if l.replaces {
		l.compare(nil, now)
	} else {
		l.compare(past, now)
	}
	if ok {
		l.findAdded(past)
	}
	// A header that forgetRow wrote, or one from before the clock was set back, is replaced.
	l.same = ok && before.FetchedAt != 0 && before.FetchedAt <= l.header.FetchedAt && // guard 7.17, 19.14
		before.Complete == l.header.Complete && before.Newest == l.header.Newest && before.Suspect == l.header.Suspect &&
		len(l.changed)+len(l.removed)+len(l.absent)+len(l.forgets) == 0 && !l.unread && !l.replaces ||
		l.fill.distrust && l.header.Suspect.Since == 0 // there is nothing to keep
	return nil
}

// kept returns the kept listing; ok is false if there is none that can be read. It leaves out the rows that
// an incomplete listing of upstream lacks, which the change removes. Such rows pile up: each write that
// settles adds a row, but upstream lists only its newest keys. If there are many, the change replaces the
// whole listing.
func (l *listed) kept(shown []Row, complete bool) (h record.Header, rows []Row, ok bool, err error) {
	namespace := l.fill.namespace
	if h, _, err = readHeader(l.store.DB(), namespace); store.IgnoreDamage(err) != nil {
		return h, nil, false, err
	}
	trims := !complete && !l.fill.believe && h.Suspect.Since == 0
	stays := make(map[string]bool, len(shown)+len(l.fill.known))
	for _, r := range shown {
		stays[r.Key] = true
	}
	for _, k := range l.fill.known {
		stays[k.Key] = true
	}
	_, ok, damaged, err := l.listing(l.store.DB(), namespace, func(r Row) error {
		if !trims || stays[r.Key] {
			rows = append(rows, r)
		} else if l.removed = append(l.removed, r.Key); len(l.removed) > droppedAtOnce {
			l.replaces, l.removed = true, nil
		}
		return nil
	})
	if l.replaces = l.replaces || damaged; l.replaces {
		l.removed = nil
	}
	if !ok {
		return record.Header{}, nil, false, err
	}
	return h, rows, true, nil
}

// compared merges upstream's rows with the kept rows, or else with the settled copies: these show which
// rows come from this journal's writes. A row's time never goes back, unless a person believes upstream
// (contract 19).
func (l *listed) compared(rows, past []Row) ([]Row, error) {
	rows = slices.Clone(rows)
	for i := range rows {
		r := &rows[i]
		kept, err := l.keptRow(past, r.Key)
		if err != nil {
			return nil, err
		}
		if kept.Origin.NewerThan(r.UpdatedAt) { // guard 7.26
			l.older++
			if l.fill.believe {
				// Its value is unknown, so the copy is removed.
				r.Origin = Origin{At: r.UpdatedAt}
				l.absent = append(l.absent, ID{Namespace: l.fill.namespace, Key: r.Key}) // guard 7.31
				l.held[r.Key] = true
			} else {
				*r = kept
			}
			continue
		}
		r.Origin = kept.Origin.Shown(kept.ListBytes == r.ListBytes || r.Rough, r.UpdatedAt)
		if r.Rough && r.Origin.Seq == kept.Origin.Seq && (kept.Origin.At == r.UpdatedAt || kept.Origin.At == 0 && kept.Origin.Seq != 0) {
			r.ListBytes = kept.ListBytes // the state is known here
		}
		r.Rough = false
		if kept.UpdatedAt != 0 && r.Origin.Overtakes(kept.Origin) {
			l.newer = append(l.newer, ID{Namespace: l.fill.namespace, Key: r.Key})
		}
		r.UpdatedAt = max(r.UpdatedAt, kept.UpdatedAt) // guard 19.7
	}
	return rows, nil
}

// keptRow returns an entry's row from the past listing, or else a row made from its settled copy.
func (l *listed) keptRow(past []Row, name string) (Row, error) {
	i, ok := slices.BinarySearchFunc(past, name, func(r Row, name string) int { return cmp.Compare(r.Key, name) })
	if ok {
		return past[i], nil
	}
	copied, _, err := l.Head(ID{Namespace: l.fill.namespace, Key: name})
	return Row{Key: name, ListBytes: copied.ListBytes, UpdatedAt: copied.UpdatedAt, Origin: copied.Origin}, err // guard 10.4
}

// inOrder gives later writes of this journal later times, because they may have reached upstream in
// another order (contract 10). It returns the newest time of all rows.
func inOrder(now map[string]Row) (newest float64) {
	written := slices.SortedFunc(maps.Values(now), func(a, b Row) int { return cmp.Compare(a.Origin.Seq, b.Origin.Seq) })
	before := 0.0
	for _, row := range written {
		if row.Origin.Seq != 0 {
			row.UpdatedAt = max(row.UpdatedAt, before+store.Tick) // guard 10.7
			before = row.UpdatedAt
			now[row.Key] = row
		}
		newest = max(newest, row.UpdatedAt)
	}
	return newest
}

// compare finds the rows that differ between the past and the new listing.
func (l *listed) compare(past []Row, now map[string]Row) {
	for _, old := range past {
		switch row, ok := now[old.Key]; {
		case !ok:
			l.removed = append(l.removed, old.Key)
		case row == old:
			delete(now, old.Key)
		}
	}
	for _, row := range now {
		l.changed = append(l.changed, row)
	}
}

func (l *listed) findAdded(past []Row) {
	for _, row := range l.changed {
		if !isAmong(past, row.Key) {
			l.added = append(l.added, ID{Namespace: l.fill.namespace, Key: row.Key})
		}
	}
}

// tell logs if the namespace has become suspect or is no longer suspect, and counts older answers.
func (l *listed) tell() {
	if !l.same && !l.fill.distrust { // a caller of Distrust knows already
		l.Trust.tell(l.fill.namespace, l.past, l.header.Suspect)
	}
	if l.older > 0 {
		l.Trust.heard(l.fill.namespace, l.older)
	}
}

func has(rows map[string]Row, name string) bool {
	_, ok := rows[name]
	return ok
}

// isComing reports whether a write to an entry that the listing lacks waits for its sync. The write's condition was checked
// against the state before, so no reader may see the entry absent in between.
func (l *listed) isComing() bool {
	return slices.ContainsFunc(l.absent, l.queue.IsComing) ||
		slices.ContainsFunc(l.removed, func(key string) bool { return l.queue.IsComing(ID{Namespace: l.fill.namespace, Key: key}) })
}

// Fill adds the rows that differ to the batch, if there are any.
func (l *listed) Fill(tx *store.Tx) error {
	namespace := l.fill.namespace
	if l.isComing() { // guard 8.11
		l.unlock() // a refused change also waits for a sync
		return queue.ErrChanged
	}
	for _, other := range l.stripe(namespace).observers[namespace] {
		other.overtaken = true
	}
	if l.same { // guard 3.23
		defer l.unlock()
		l.seen.confirm(ID{Namespace: namespace}, l.header.FetchedAt) // guard 9.15
		l.readers.Lock()
		defer l.readers.Unlock()
		l.readers.Changed(queue.Change{ID: ID{Namespace: namespace}}) // guard 8.7
		return nil
	}
	if err := l.dropCopies(tx); err != nil {
		return err
	}
	if l.replaces {
		dropListing(tx, namespace)
	}
	l.past = l.Trust.note(namespace, l.header.Suspect)
	l.dropNewests(tx, l.forgets)
	for _, key := range l.removed {
		tx.Delete(record.RowKey(namespace, key))
	}
	for _, row := range l.changed {
		l.setRow(tx, namespace, row)
	}
	setHeader(tx, namespace, l.header)
	return nil
}

// dropCopies moves the copies of the absent entries to the history, except those that a pending
// write is based on. If some copies of the namespace cannot be read, it cannot tell which of them
// upstream still holds. Then it removes all copies, unless the namespace is suspect. It is the first change in tx.
func (l *listed) dropCopies(tx *store.Tx) error {
	for i := range l.dropped {
		if err := l.lookAgain(tx, l.dropped[i].id, &l.dropped[i].past); err != nil {
			return err
		}
	}
	if l.unread && l.header.Suspect.Since == 0 { // guard 9.58
		// guard 7.2
		tx.DeletePrefix(record.Within(record.SettledPrefix, l.fill.namespace))
		return nil // guard 7.2b
	}
	for i := range l.dropped {
		d := &l.dropped[i]
		switch {
		case l.keepsBase(d.id):
		// guard 9.100
		case l.queue.IsPending(d.id): // the write says what the entry is now
			tx.Delete(record.EntryKey(record.SettledPrefix, d.id))
		case d.held:
			l.giveWay(tx, d.id, &d.past)
		default:
			l.gone(tx, d.id, &d.past, l.fill.startedAt)
		}
	}
	return nil
}

// droppedAtOnce bounds how many copies, or rows one by one, one change removes: readers wait for it.
const droppedAtOnce = 256

// readAbsent reads the copies of absent.
func (l *listed) readAbsent() error {
	for _, id := range l.absent {
		past, err := l.read(id)
		if err != nil {
			return err
		}
		l.dropped = append(l.dropped, absentCopy{id, past, l.held[id.Key]})
	}
	return nil
}

// dropMost removes copies and newest states of entries that upstream no longer holds in separate changes, until the
// rest fit into the listing's change. The caller holds the copies lock.
func (l *listed) dropMost() error {
	for len(l.forgets) > droppedAtOnce {
		some := l.forgets[:droppedAtOnce]
		err := l.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			l.dropNewests(tx, some)
			return nil
		}))
		if err != nil {
			return err
		}
		l.forgets = l.forgets[droppedAtOnce:]
	}
	for len(l.absent) > droppedAtOnce {
		some := &dropping{listed: listed{
			Entries: l.Entries, fill: l.fill, absent: l.absent[:droppedAtOnce], held: l.held, unlock: func() {},
		}}
		if err := some.readAbsent(); err != nil {
			return err
		}
		err := l.store.Update(some)
		some.Reveal()
		if err != nil {
			return err
		}
		l.absent = l.absent[droppedAtOnce:]
	}
	return l.readAbsent()
}

// dropping is one part of a listing's change. It only removes copies.
type dropping struct{ listed }

// Fill adds the removals to the batch.
func (l *dropping) Fill(tx *store.Tx) error {
	if l.isComing() {
		return queue.ErrChanged
	}
	return l.dropCopies(tx)
}

// Applied makes readers wait until the change is durable.
func (l *listed) Applied() {
	listing := ID{Namespace: l.fill.namespace}
	// guard 7.37
	for _, id := range slices.Concat([]ID{listing}, l.absent, l.added, l.newer) {
		l.readers.Changed(queue.Change{ID: id})
	}
	// A reader of a removed copy looks at the listing next, so it also waits.
	l.Hide(l.readers, listing) // guard 7.14
	l.unlock()
}
