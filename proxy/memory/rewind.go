package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// rewoundAtOnce is the number of entries that one page of an undo looks at, and so the number of keys that
	// it holds.
	rewoundAtOnce = 256
	// rewoundTogether is how many of them are written at the same time, so that they share syncs.
	rewoundTogether = 32
	// looksForWrite bounds how often an undo looks at an entry whose versions lack its state.
	looksForWrite = 3
	// authorsCounted bounds the authors that are counted.
	authorsCounted = 50
)

// Rewind is an undo of the writes to a namespace since a time.
type Rewind struct {
	Namespace string
	Before    float64 // Unix seconds
	// Only is the author whose writes are undone; nil if all own writes of this daemon's are. All undoes those
	// of other hosts, too.
	Only *string
	All  bool
}

// Rewound says what becomes of an entry in a [Rewind].
type Rewound struct {
	Key  string
	Left string       // why it stays; empty if it changes, or is as it was
	Same bool         // it is as it was
	Now  journal.Past // what it becomes, if it changes
}

// Rewindable says what a [Rewind] would undo.
type Rewindable struct {
	AsOf    uint64         // the number of the newest version that it has seen
	Author  *string        // Rewind.Only, or the one author of the namespace since; nil if there is none
	Authors map[string]int // the entries that authors have written since, up to authorsCounted authors
}

func (u *Rewind) decide(c *journal.Changed) Rewound {
	left := func(why string) Rewound { return Rewound{Key: c.Key, Left: why} }
	switch {
	case c.Same():
		return Rewound{Key: c.Key, Same: true}
	case c.Elsewhere && !u.All: // guard 13.63
		return left("another host has written it since")
	case c.Gap == journal.GapDamaged:
		return left("a version of it is damaged")
	case c.Gap == journal.GapForgotten:
		return left("its versions of then were removed for room, or it was overwritten unread")
	case c.Gap == journal.GapUnsealed:
		return left("it is from before the namespace was sealed, when anybody could write it: an undo of the entry can name its revision")
	case c.Gap == journal.GapUnread:
		return left("botwired does not know what was here before")
	}
	if u.Only != nil {
		for _, author := range c.Authors {
			if author != *u.Only { // guard 13.64
				return left(cmp.Or(author, unnamed) + " has written it since")
			}
		}
	}
	return Rewound{Key: c.Key, Now: c.Then}
}

const unnamed = "a program without a name"

// PreviewRewind says what an undo would do, and calls each for the entries that were written since. Without an author,
// it takes the one whose writes have changed entries since.
func (m *Memory) PreviewRewind(ctx context.Context, u *Rewind, each func(Rewound)) (seen Rewindable, err error) {
	seen = Rewindable{Author: u.Only, Authors: make(map[string]int)}
	seen.AsOf, err = m.journal.History.ChangedSince(ctx, u.Namespace, "", u.Before, func(_ uint64, c *journal.Changed) (bool, error) {
		do := u.decide(c)
		each(do)
		if !do.Same && c.Gap == "" { // else it stays, whoever has written it
			seen.count(c.Authors)
		}
		return true, nil
	})
	if err != nil || u.Only != nil || u.All {
		return seen, err
	}
	names := slices.Sorted(maps.Keys(seen.Authors))
	if programs := slices.DeleteFunc(slices.Clone(names), wire.IsByHand); len(programs) > 0 {
		names = programs // what a person has repaired since stays
	}
	if len(names) > 1 { // guard 13.65
		for i, name := range names {
			names[i] = fmt.Sprintf("%s (%d)", cmp.Or(name, unnamed), seen.Authors[name])
		}
		return seen, wire.Detail(statusConflict, fmt.Sprintf(
			"several programs have written entries of %s since: %s. Name one with author, or take the writes of all with all_authors=true",
			u.Namespace, strings.Join(names, ", ")))
	}
	if len(names) == 1 {
		seen.Author = &names[0]
	}
	return seen, nil
}

func (s *Rewindable) count(authors []string) {
	for _, author := range authors {
		if s.Authors[author] > 0 || len(s.Authors) < authorsCounted {
			s.Authors[author]++
		}
	}
}

// RewindPage undoes the writes to some entries, those that follow after, and returns their outcomes in the order of the
// keys. more says that there are others. Each is a write of its own: after a crash or an error the same call goes on
// with the entries that are left. asOf is that of the preview, and author that of the new writes.
func (m *Memory) RewindPage(ctx context.Context, u *Rewind, asOf uint64, after, author string) (done []Rewound, more bool, err error) {
	var keys []string
	_, err = m.journal.History.ChangedSince(ctx, u.Namespace, after, u.Before, func(_ uint64, c *journal.Changed) (bool, error) {
		keys = append(keys, c.Key)
		return len(keys) < rewoundAtOnce, nil
	})
	if err != nil {
		return nil, false, err
	}
	var mu sync.Mutex // guards done
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rewoundTogether)
	for _, key := range keys {
		g.Go(func() error {
			do, err := m.rewindEntry(ctx, u, journal.ID{Namespace: u.Namespace, Key: key}, asOf, author)
			mu.Lock()
			defer mu.Unlock()
			do.Now.Value = "" // it is written
			done = append(done, do)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	slices.SortFunc(done, func(a, b Rewound) int { return strings.Compare(a.Key, b.Key) })
	return done, len(keys) == rewoundAtOnce, nil
}

var errNothingToDo = errors.New("the entry is not written")

// rewindEntry writes an entry as it was, unless somebody has written it after the preview.
func (m *Memory) rewindEntry(ctx context.Context, u *Rewind, id journal.ID, asOf uint64, author string) (do Rewound, err error) {
	q := &Request{Verb: PutEntry, ID: id, Author: author, Together: true}
	looks := 0
	_, err = m.Update(ctx, q, func(item *cache.Item) (w journal.NewWrite, err error) {
		c, changed, err := m.journal.History.ChangedEntry(id, u.Before)
		if err != nil {
			return w, err
		}
		now, _, exists, err := Shown(item)
		if err != nil {
			return w, err
		}
		same, left := Rewound{Key: id.Key, Same: true}, func(why string) Rewound { return Rewound{Key: id.Key, Left: why} }
		if do = u.decide(&c); !changed {
			do = same
		}
		isNow := func(p *journal.Past) bool {
			return exists == (p.Op == journal.Put) && now == p.Value
		}
		if looks++; changed && !isNow(&c.Now) && looks <= looksForWrite {
			return w, journal.ErrChanged // the versions may be newer than the state: Update looks again
		}
		switch {
		case changed && c.Gap == "" && isNow(&c.Then):
			do = same
		case changed && c.Seq > asOf: // guard 13.62
			do = left("it was written after the preview")
		case !isNow(&c.Now) && !u.All:
			do = left("another host has written it since")
		case !isNow(&c.Now) && do.Same:
			do = left("it was written after the preview")
		}
		if do.Same || do.Left != "" {
			return w, errNothingToDo
		}
		return writeOf(id, &do.Now), nil
	})
	if errors.Is(err, errNothingToDo) {
		return do, nil
	}
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return Rewound{Key: id.Key, Left: refusal.Text()}, nil
	}
	if _, unavailable := RetryAfter(err); unavailable || IsNamespaceFull(err) {
		return Rewound{Key: id.Key, Left: err.Error()}, nil
	}
	return do, err
}
