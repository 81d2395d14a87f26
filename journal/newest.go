package journal

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// newestRows keeps the newest of the rows that add gets, in bounded memory. Of this journal's
// writes, the one with the higher number is newer, whatever their times; of other writers' rows,
// the one with the later time.
type newestRows struct {
	most        int // of each of the two
	own, others []Row
	floor       float64 // the latest time of a dropped row of an own write
	dropped     bool
}

func (n *newestRows) add(r Row) error {
	if r.Origin.Seq == 0 {
		n.others = n.cut(append(n.others, r), 2*n.most)
	} else {
		n.own = n.cut(append(n.own, r), 2*n.most)
	}
	return nil
}

// cut leaves the newest of the rows if there are more than limit.
func (n *newestRows) cut(rows []Row, limit int) []Row {
	if len(rows) <= limit {
		return rows
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Origin.Seq, a.Origin.Seq), cmp.Compare(b.UpdatedAt, a.UpdatedAt))
	})
	for _, r := range rows[n.most:] {
		if n.dropped = true; r.Origin.Seq != 0 {
			n.floor = max(n.floor, r.UpdatedAt)
		}
	}
	return rows[:n.most]
}

// rows returns the newest rows in the order of their keys. It gives an own write at least the time
// of the own writes that were dropped before it.
func (n *newestRows) rows() []Row {
	n.own, n.others = n.cut(n.own, n.most), n.cut(n.others, n.most)
	for i := range n.own {
		n.own[i].UpdatedAt = max(n.own[i].UpdatedAt, n.floor) // guard 10.18
	}
	all := slices.Concat(n.own, n.others)
	slices.SortFunc(all, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// trimmedAtOnce bounds how many rows go with one change.
const trimmedAtOnce = 1024

// trim removes rows that an incomplete listing does not show, in changes of their own, until few
// enough are left to go with the listing: each write that settles adds a row, and upstream lists
// only its newest keys. With the first change, the kept listing becomes incomplete. The caller
// holds the copies lock.
func (l *listed) trim(rows []Row) error {
	namespace := l.fill.namespace
	h, ok, err := readHeader(l.store.DB(), namespace)
	if err != nil || !ok || h.Suspect.Since != 0 { // prepare gives a damaged one up, and looks at all rows of a suspect namespace
		_, err = l.giveUp(err)
		return err
	}
	shown := make(map[string]bool, len(rows)+len(l.fill.known))
	for _, r := range rows {
		shown[r.Key] = true
	}
	for _, k := range l.fill.known {
		shown[k.Key] = true
	}
	h.Complete = false // guard 9.16
	for last := ""; ; {
		keys, err := l.notShown(last, shown)
		if err != nil || len(keys) < trimmedAtOnce {
			return err
		}
		some := &dropping{listed: listed{copies: l.copies, fill: l.fill, header: h, removed: keys, unlock: func() {}}}
		err = l.store.Update(some)
		some.reveal()
		if err != nil {
			return err
		}
		last = keys[len(keys)-1]
	}
}

// notShown returns the keys of the next rows, after last, that a listing does not show.
func (l *listed) notShown(last string, shown map[string]bool) (keys []string, err error) {
	prefix := record.Within(record.RowPrefix, l.fill.namespace)
	after := append([]byte(string(prefix)+last), 0)
	err = store.Each(l.store.DB(), after, record.After(prefix), func(key, _ []byte) error {
		if name := string(key[len(prefix):]); !shown[name] {
			keys = append(keys, name)
		}
		if len(keys) == trimmedAtOnce {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return keys, err
}
