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
	"time"

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
	// rewindAsks is how long a preview asks upstream for what was there before, about many entries. It leaves the rest.
	rewindAsks = 30 * time.Second
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

// asks reports whether upstream may know what the versions here do not tell of an entry.
func (u *Rewind) asks(c *journal.Changed) bool {
	return (c.Gap == journal.GapUnread || c.Gap == journal.GapForgotten) && (u.All || !c.Elsewhere)
}

// others says that others have written an entry since; it is empty if they have not.
func (u *Rewind) others(c *journal.Changed) string {
	if c.Elsewhere && !u.All { // guard 13.63
		return "another host has written it since"
	}
	if u.Only != nil {
		for _, author := range c.Authors {
			if author != *u.Only { // guard 13.64
				return cmp.Or(author, unnamed) + " has written it since"
			}
		}
	}
	return ""
}

func (u *Rewind) decide(c *journal.Changed) Rewound {
	left := func(why string) Rewound { return Rewound{Key: c.Key, Left: why} }
	if c.Same() {
		return Rewound{Key: c.Key, Same: true}
	}
	if why := u.others(c); why != "" {
		return left(why)
	}
	switch c.Gap {
	case journal.GapDamaged:
		return left("a version of it is damaged")
	case journal.GapForgotten:
		return left("its versions of then were removed for room, or it was overwritten unread")
	case journal.GapUnsealed:
		return left("it is from before the namespace was sealed, when anybody could write it: an undo of the entry can name its revision")
	case journal.GapUnread:
		return left("it was overwritten unread, or is new: botwired does not know what was here before")
	}
	return Rewound{Key: c.Key, Now: c.Then}
}

const unnamed = "a program without a name"

// PreviewRewind says what an undo would do, and calls each for the entries that were written since. Where their versions
// do not tell what was there before, it asks upstream. Without an author, it takes the one whose writes have changed
// entries since.
func (m *Memory) PreviewRewind(ctx context.Context, u *Rewind, each func(Rewound)) (seen Rewindable, err error) {
	seen = Rewindable{Author: u.Only, Authors: make(map[string]int)}
	tell := func(c *journal.Changed, do Rewound) {
		each(do)
		if !do.Same && c.Gap == "" { // else it stays, whoever has written it
			seen.count(c.Authors)
		}
	}
	var unknown []string
	seen.AsOf, err = m.journal.History.ChangedSince(ctx, u.Namespace, "", u.Before, func(_ uint64, c *journal.Changed) (bool, error) {
		if u.asks(c) {
			unknown = append(unknown, c.Key)
		} else {
			tell(c, u.decide(c))
		}
		return true, nil
	})
	if err == nil {
		err = m.previewUnknown(ctx, u, seen.AsOf, unknown, tell)
	}
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

// previewUnknown asks upstream what entries were before, and calls tell for one after the other. Once upstream cannot be
// asked, it asks no more.
func (m *Memory) previewUnknown(caller context.Context, u *Rewind, asOf uint64, keys []string, tell func(*journal.Changed, Rewound)) error {
	ctx, cancel := m.tasks.Patience(caller, rewindAsks)
	defer cancel()
	var mu sync.Mutex // guards unasked, and the calls of tell
	var unasked error
	var g errgroup.Group
	g.SetLimit(rewoundTogether)
	for _, key := range keys {
		g.Go(func() error {
			mu.Lock()
			why := unasked
			mu.Unlock()
			c, changed, do, err := m.recall(ctx, u, journal.ID{Namespace: u.Namespace, Key: key}, asOf, &why)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if unasked = why; changed {
				tell(&c, do)
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), caller.Err())
}

// recall returns what an entry was at the time of an undo, and what becomes of it. It asks upstream if the versions here
// do not tell. unasked says why upstream cannot be asked: then recall does not ask, and it sets the reason.
func (m *Memory) recall(ctx context.Context, u *Rewind, id journal.ID, asOf uint64, unasked *error) (c journal.Changed, changed bool, do Rewound, err error) {
	c, changed, err = m.journal.History.ChangedEntry(id, u.Before)
	if err != nil || !changed {
		return c, false, Rewound{Key: id.Key, Same: true}, err
	}
	asks := u.asks(&c)
	if asks && *unasked == nil {
		err := m.askBefore(ctx, u.Before, asOf, &c)
		if _, unavailable := RetryAfter(err); err != nil && !unavailable {
			return c, true, do, err
		}
		*unasked = err
	}
	if do = u.decide(&c); asks && *unasked != nil {
		do.Left = fmt.Sprintf("it was overwritten unread, or is new, and upstream could not be asked: %v. The same undo asks again", *unasked)
	}
	return c, true, do, nil
}

// askBefore asks upstream what an entry was at a time, in Unix seconds, where the versions here do not tell. If upstream
// shows it, askBefore sets c.Then and takes c.Gap away. Upstream may still hold the state of then, or keep it as an earlier
// version. Or there was no entry: there is none yet, or upstream has created it since, and nothing here speaks against that.
func (m *Memory) askBefore(ctx context.Context, at float64, asOf uint64, c *journal.Changed) error {
	there, err := m.holds(ctx, c.ID)
	if err != nil {
		return err
	}
	own, err := m.journal.History.Of(c.ID, versionsListed)
	if err != nil {
		return err
	}
	puts, createdAt := c.MayBeNew, 0.0
	for i := range there {
		v := &there[i]
		// This journal's write since, by its own clock: upstream's may be behind. The undo may have begun before.
		mine := v.Here || slices.ContainsFunc(own, func(o journal.Past) bool {
			return !o.Shown && o.WrittenAt > at && o.Seq <= asOf && v.is(o.Op, o.Value)
		})
		switch {
		case v.WrittenAt <= at && (!mine || m.revisions != nil): // guard 13.92
			c.Then, c.Gap = v.Past, ""
			return nil
		case !mine: // guard 13.93
			c.Elsewhere = true
		}
		puts, createdAt = puts && v.Op == journal.Put, max(createdAt, v.CreatedAt)
	}
	absent := len(there) == 0 && c.Unseen && !m.view.hasDataLoss(c.Namespace)
	if puts && (absent || createdAt > at) { // guard 13.94
		c.Then, c.Gap = journal.Past{ID: c.ID, Op: journal.Delete}, ""
	}
	return nil
}

// holds asks upstream for an entry: for the versions that it keeps, the present one first, or for the present one.
func (m *Memory) holds(caller context.Context, id journal.ID) (there []Version, err error) {
	if m.revisions != nil {
		return m.versionsUpstream(caller, id)
	}
	err = m.Ask(caller, id, func(ctx context.Context) error {
		seen, err := m.upstream.Get(ctx, id, false)
		if err == nil && seen != nil {
			there = []Version{{Past: journal.Past{ID: id, Op: journal.Put, Value: seen.Value, WrittenAt: seen.UpdatedAt}, CreatedAt: seen.CreatedAt}}
		}
		return err
	})
	return there, err
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
		c, changed, decided, err := m.recall(ctx, u, id, asOf, new(error))
		if err != nil {
			return w, err
		}
		now, _, exists, err := valueOf(item)
		if err != nil {
			return w, err
		}
		left := func(why string) Rewound { return Rewound{Key: id.Key, Left: why} }
		do = decided
		isNow := func(p *journal.Past) bool {
			return exists == (p.Op == journal.Put) && now == p.Value
		}
		if looks++; changed && !isNow(&c.Now) && looks <= looksForWrite {
			return w, journal.ErrChanged // the versions may be newer than the state: Update looks again
		}
		switch {
		case changed && c.Gap == "" && isNow(&c.Then):
			do = Rewound{Key: id.Key, Same: true}
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
