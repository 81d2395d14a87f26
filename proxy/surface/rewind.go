package surface

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const (
	// rewoundAtOnce is the number of entries that one page of an undo looks at, and so the number of keys that
	// it holds.
	rewoundAtOnce = 256
	// rewoundTogether is how many of them are written at the same time, so that they share syncs.
	rewoundTogether = 32
	// rewindShown bounds the entries that an answer names.
	rewindShown = 1000
	// looksForWrite bounds how often an undo looks at an entry whose versions lack its state.
	looksForWrite = 3
	// authorsCounted bounds the authors that are counted.
	authorsCounted = 50
)

type rewind struct {
	namespace string
	before    float64 // Unix seconds
	// only is the author whose writes are undone; nil if all own writes of this daemon's are. all undoes those
	// of other hosts, too.
	only *string
	all  bool
}

// Rewind answers a request about a namespace: a preview, or a page of the undo. author is that of the new
// writes.
func (s *Surface) Rewind(w http.ResponseWriter, r *http.Request, author string) error {
	parameters := []string{"namespace", "before", "author", "all_authors"}
	if r.Method == http.MethodPost {
		parameters = append(parameters, "as_of", "after")
	}
	p := Require(r, "GET, POST", parameters...)
	u := rewind{namespace: p.givenNamespace(), before: p.past("before"), all: p.truth("all_authors")}
	if p.values.Has("author") {
		name := p.Text("author")
		if u.only = &name; u.all {
			p.Refuse("author and all_authors exclude each other")
		}
	}
	asOf := p.asOf(s.journal.Stats().LastSeq)
	if r.Method == http.MethodPost && !p.values.Has("as_of") {
		p.Refuse("the parameter as_of is missing: a GET of the same shows it")
	}
	if p.Err != nil {
		return p.Err
	}
	if r.Method == http.MethodPost {
		end, err := s.BeginWait()
		if err != nil {
			return err // guard 16.54
		}
		defer end()
	}
	s.memory.Use(u.namespace)
	Allow(w, flushTimeout)
	if r.Method != http.MethodPost || u.only == nil && !u.all {
		doc, err := s.previewRewind(r.Context(), &u)
		if err != nil {
			return err
		}
		if u.only = doc.Author; r.Method != http.MethodPost {
			return writeDocument(w, http.StatusOK, doc)
		}
	}
	doc, err := s.rewindPage(r.Context(), &u, asOf, p.Text("after"), author)
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, doc)
}

func (p *Parameters) past(name string) float64 {
	text := p.Text(name)
	at, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var given time.Time
		given, err = time.Parse(time.RFC3339, text)
		at = unixSeconds(given)
	}
	if err != nil || !(at > 0) {
		p.Refuse("%s=%.40q: expected a time as RFC 3339 has it, such as 2026-11-27T09:30:00Z, or in Unix seconds", name, text)
	} else if now := unixSeconds(time.Now()); at > now {
		p.Refuse("%s=%.40q: expected a time in the past", name, text)
	}
	return at
}

type outcome struct {
	left  string // why it stays; empty if it changes, or is as it was
	same  bool
	write journal.Past
}

func (u *rewind) decide(c *journal.Changed) outcome {
	switch {
	case c.Same():
		return outcome{same: true}
	case c.Elsewhere && !u.all: // guard 13.63
		return outcome{left: "another host has written it since"}
	case c.Gap == journal.GapDamaged:
		return outcome{left: "a version of it is damaged"}
	case c.Gap == journal.GapForgotten:
		return outcome{left: "its versions of then were removed for room, or it was overwritten unread"}
	case c.Gap == journal.GapUnsealed:
		return outcome{left: "it is from before the namespace was sealed, when anybody could write it: an undo of the entry can name its revision"}
	case c.Gap == journal.GapUnread:
		return outcome{left: "botwired does not know what was here before"}
	}
	if u.only != nil {
		for _, author := range c.Authors {
			if author != *u.only { // guard 13.64
				return outcome{left: cmp.Or(author, unnamed) + " has written it since"}
			}
		}
	}
	return outcome{write: c.Then}
}

const unnamed = "a program without a name"

// previewRewind says what an undo would do. Without an author, it takes the one whose writes have changed
// entries since.
func (s *Surface) previewRewind(ctx context.Context, u *rewind) (*api.Rewind, error) {
	doc := &api.Rewind{
		Namespace: u.namespace, Before: u.before, Author: u.only, Authors: make(map[string]int),
		Changes: []api.RewindChange{}, RewindCounts: api.RewindCounts{LeftEntries: []api.LeftEntry{}},
	}
	var err error
	doc.AsOf, err = s.journal.History.ChangedSince(ctx, u.namespace, "", u.before, func(_ uint64, c *journal.Changed) (bool, error) {
		do := u.decide(c)
		count(&doc.RewindCounts, c.Key, &do)
		if do.same {
			return true, nil
		}
		for _, author := range c.Authors {
			if c.Gap != "" {
				break // it stays, whoever has written it
			}
			if doc.Authors[author] > 0 || len(doc.Authors) < authorsCounted {
				doc.Authors[author]++
			}
		}
		if do.left == "" && len(doc.Changes) < rewindShown {
			doc.Changes = append(doc.Changes, api.RewindChange{
				Key: c.Key, Op: do.write.Op.String(), Bytes: wire.CodePoints(do.write.Value),
			})
		}
		return true, nil
	})
	if err != nil || u.only != nil || u.all {
		return doc, err
	}
	names := slices.Sorted(maps.Keys(doc.Authors))
	if programs := slices.DeleteFunc(slices.Clone(names), wire.IsByHand); len(programs) > 0 {
		names = programs // what a person has repaired since stays
	}
	if len(names) > 1 { // guard 13.65
		for i, name := range names {
			names[i] = fmt.Sprintf("%s (%d)", cmp.Or(name, unnamed), doc.Authors[name])
		}
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf(
			"several programs have written entries of %s since: %s. Name one with author, or take the writes of all with all_authors=true",
			u.namespace, strings.Join(names, ", ")))
	}
	if len(names) == 1 {
		doc.Author = &names[0]
	}
	return doc, nil
}

func count(counts *api.RewindCounts, key string, do *outcome) {
	switch {
	case do.same:
		counts.Same++
	case do.left != "":
		if counts.Left++; len(counts.LeftEntries) < rewindShown {
			counts.LeftEntries = append(counts.LeftEntries, api.LeftEntry{Key: key, Why: do.left})
		}
	case do.write.Op == journal.Delete:
		counts.Deleted++
	default:
		counts.Restored++
	}
}

// rewindPage undoes the writes to some entries, those that follow after. Each is a write of its own: after a
// crash or an error the same request goes on with the entries that are left.
func (s *Surface) rewindPage(ctx context.Context, u *rewind, asOf uint64, after, author string) (*api.Rewound, error) {
	doc := &api.Rewound{Namespace: u.namespace, RewindCounts: api.RewindCounts{LeftEntries: []api.LeftEntry{}}}
	var keys []string
	_, err := s.journal.History.ChangedSince(ctx, u.namespace, after, u.before, func(_ uint64, c *journal.Changed) (bool, error) {
		keys = append(keys, c.Key)
		return len(keys) < rewoundAtOnce, nil
	})
	if err != nil {
		return nil, err
	}
	if len(keys) == rewoundAtOnce {
		doc.Next = &keys[len(keys)-1]
	}
	var mu sync.Mutex // guards doc
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rewoundTogether)
	for _, key := range keys {
		g.Go(func() error {
			do, err := s.rewindEntry(ctx, u, journal.ID{Namespace: u.namespace, Key: key}, asOf, author)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			count(&doc.RewindCounts, key, &do)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(doc.LeftEntries, func(a, b api.LeftEntry) int { return strings.Compare(a.Key, b.Key) })
	return doc, nil
}

var errNothingToDo = errors.New("the entry is not written")

// rewindEntry writes an entry as it was, unless somebody has written it after the preview.
func (s *Surface) rewindEntry(ctx context.Context, u *rewind, id journal.ID, asOf uint64, author string) (do outcome, err error) {
	q := &memory.Request{Verb: memory.PutEntry, ID: id, Author: author, Together: true}
	looks := 0
	_, err = s.memory.Update(ctx, q, func(item *cache.Item) (w journal.NewWrite, err error) {
		c, changed, err := s.journal.History.ChangedEntry(id, u.before)
		if err != nil {
			return w, err
		}
		now, _, exists, err := memory.Shown(item)
		if err != nil {
			return w, err
		}
		if do = u.decide(&c); !changed {
			do = outcome{same: true}
		}
		isNow := func(p *journal.Past) bool {
			return exists == (p.Op == journal.Put) && now == p.Value
		}
		if looks++; changed && !isNow(&c.Now) && looks <= looksForWrite {
			return w, journal.ErrChanged // the versions may be newer than the state: Update looks again
		}
		switch {
		case changed && c.Gap == "" && isNow(&c.Then):
			do = outcome{same: true}
		case changed && c.Seq > asOf: // guard 13.62
			do = outcome{left: "it was written after the preview"}
		case !isNow(&c.Now) && !u.all:
			do = outcome{left: "another host has written it since"}
		case !isNow(&c.Now) && do.same:
			do = outcome{left: "it was written after the preview"}
		}
		switch {
		case do.same || do.left != "":
			return w, errNothingToDo
		case do.write.Op == journal.Delete:
			return journal.NewWrite{ID: id, Op: journal.Delete}, nil
		}
		return memory.NewPut(id, do.write.Value), nil
	})
	if errors.Is(err, errNothingToDo) {
		return do, nil
	}
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return outcome{left: detailOf(refusal)}, nil
	}
	if _, unavailable := memory.RetryAfter(err); unavailable || memory.IsNamespaceFull(err) {
		return outcome{left: err.Error()}, nil
	}
	return do, err
}

func detailOf(refusal *wire.Refusal) string {
	var said struct{ Detail string }
	_ = json.Unmarshal(refusal.Body, &said)
	return said.Detail
}
