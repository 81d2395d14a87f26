package surface

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

// rewindShown bounds the entries that an answer names.
const rewindShown = 1000

// Rewind answers a request about a namespace: a preview, or a page of the undo. author is that of the new
// writes.
func (s *Surface) Rewind(w http.ResponseWriter, r *http.Request, author string) error {
	parameters := []string{"namespace", "before", "author", "all_authors"}
	if r.Method == http.MethodPost {
		parameters = append(parameters, "as_of", "after")
	}
	p := Require(r, "GET, POST", parameters...)
	u := memory.Rewind{Namespace: p.givenNamespace(), Before: p.past("before"), All: p.truth("all_authors")}
	if p.values.Has("author") {
		name := p.Text("author")
		if u.Only = &name; u.All {
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
	s.memory.Use(u.Namespace)
	Allow(w, flushTimeout)
	if r.Method != http.MethodPost || u.Only == nil && !u.All {
		doc := api.Rewind{
			Namespace: u.Namespace, Before: u.Before, Changes: []api.RewindChange{}, RewindCounts: api.RewindCounts{LeftEntries: []api.LeftEntry{}},
		}
		seen, err := s.memory.PreviewRewind(r.Context(), &u, func(do memory.Rewound) {
			count(&doc.RewindCounts, &do)
			if !do.Same && do.Left == "" && len(doc.Changes) < rewindShown {
				doc.Changes = append(doc.Changes, api.RewindChange{Key: do.Key, Op: do.Now.Op.String(), Bytes: wire.CodePoints(do.Now.Value)})
			}
		})
		if err != nil {
			return err
		}
		slices.SortFunc(doc.LeftEntries, func(a, b api.LeftEntry) int { return strings.Compare(a.Key, b.Key) })
		slices.SortFunc(doc.Changes, func(a, b api.RewindChange) int { return strings.Compare(a.Key, b.Key) })
		doc.AsOf, doc.Author, doc.Authors = seen.AsOf, seen.Author, seen.Authors
		if u.Only = seen.Author; r.Method != http.MethodPost {
			return writeDocument(w, http.StatusOK, &doc)
		}
	}
	done, more, err := s.memory.RewindPage(r.Context(), &u, asOf, p.Text("after"), author)
	if err != nil {
		return err
	}
	doc := api.Rewound{Namespace: u.Namespace, RewindCounts: api.RewindCounts{LeftEntries: []api.LeftEntry{}}}
	for i := range done {
		count(&doc.RewindCounts, &done[i])
	}
	if more {
		doc.Next = &done[len(done)-1].Key
	}
	return writeDocument(w, http.StatusOK, &doc)
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

func count(counts *api.RewindCounts, do *memory.Rewound) {
	switch {
	case do.Same:
		counts.Same++
	case do.Left != "":
		if counts.Left++; len(counts.LeftEntries) < rewindShown {
			counts.LeftEntries = append(counts.LeftEntries, api.LeftEntry{Key: do.Key, Why: do.Left})
		}
	case do.Now.Op == journal.Delete:
		counts.Deleted++
	default:
		counts.Restored++
	}
}
