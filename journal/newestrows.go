package journal

import (
	"cmp"
	"slices"
	"strings"
)

// newestRows keeps the newest of the rows that add gets, in bounded memory. Of two
// writes of this journal's, the one with the higher number is newer: their times do not count. Of two
// rows of other writers, the one with the later time is newer.
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
