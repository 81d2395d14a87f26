package proxy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

type namespaceDocument struct {
	Namespace            string        `json:"namespace"`
	Pending              int           `json:"pending"`
	PendingBytes         int64         `json:"pending_bytes"`
	OldestPendingSeconds float64       `json:"oldest_pending_seconds"`
	Waits                *waitDocument `json:"waits"` // null if it waits for nothing
	Paused               string        `json:"paused,omitempty"`
	ReadsRefused         string        `json:"reads_refused,omitempty"`
	// Suspect is null unless upstream seems to have lost entries of the namespace.
	Suspect *suspectDocument `json:"suspect"`
	// OlderAnswers is how many answers since the start showed an older state than was known.
	OlderAnswers int `json:"older_answers"`
	// Quota is null if the namespace has none, or if nothing has happened to it yet.
	Quota *quotaDocument `json:"quota"`
	// Bytes is how much the namespace holds, as far as is known. BytesLimit is null if there
	// is no limit, and upstream has said it if there is a time until which it counts.
	Bytes             int64      `json:"bytes"`
	BytesLimit        *int64     `json:"bytes_limit"`
	BytesLimitLearned *time.Time `json:"bytes_limit_learned_until,omitempty"`
	// ForeignWrites are those that others have made though the namespace is set exclusive; it is
	// left out if none was found.
	ForeignWrites *foreignDocument `json:"foreign_writes,omitempty"`
}

type foreignDocument struct {
	Found   int       `json:"found"`
	LastAt  time.Time `json:"last_found_at"`
	LastKey string    `json:"last_key"`
}

func (n *namespaceDocument) setSize(size journal.NamespaceSize) {
	n.Bytes = size.Bytes
	if size.Limited() {
		n.BytesLimit = &size.Limit
	}
	if !size.LearnedUntil.IsZero() {
		until := size.LearnedUntil.UTC().Round(time.Millisecond)
		n.BytesLimitLearned = &until
	}
}

type quotaDocument struct {
	Limit         int       `json:"limit"`
	Used          int       `json:"used"`
	Left          int       `json:"left"`
	ResetsAt      time.Time `json:"resets_at"`
	LingerSeconds float64   `json:"linger_seconds"`
	// RunsOutAt is when nothing is left at the pace of the window so far, or since when nothing
	// is; null if the quota lasts.
	RunsOutAt *time.Time `json:"runs_out_at"`
}

func newQuotaDocument(q *Quota) *quotaDocument {
	doc := &quotaDocument{
		Limit: q.Limit, Used: q.Used, Left: q.Left,
		ResetsAt: q.ResetsAt.UTC().Round(time.Millisecond), LingerSeconds: seconds(q.Linger),
	}
	if !q.RunsOutAt.IsZero() {
		at := q.RunsOutAt.UTC().Round(time.Millisecond)
		doc.RunsOutAt = &at
	}
	return doc
}

// clock is a time as people write it, in UTC.
func clock(at time.Time) string { return at.UTC().Format("15:04 UTC") }

// namespaces describes, by name, the namespaces with pending writes, those that have used
// something of their quota, those that are nearly full, those that upstream lets nobody read,
// those that are set exclusive and are not, and those of which upstream has lost entries or has
// answered with older states.
func (s *surface) namespaces(st journal.Stats) []namespaceDocument {
	docs := s.namespacesByName(st, func(string) bool { return true })
	sorted := make([]namespaceDocument, 0, len(docs))
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		sorted = append(sorted, *docs[name])
	}
	return sorted
}

// namespacesByName describes those of them that are wanted.
func (s *surface) namespacesByName(st journal.Stats, wanted func(string) bool) map[string]*namespaceDocument {
	docs := make(map[string]*namespaceDocument)
	of := func(name string) *namespaceDocument {
		switch {
		case !wanted(name):
			return &namespaceDocument{} // nobody reads it
		case docs[name] == nil:
			docs[name] = &namespaceDocument{Namespace: name}
		}
		return docs[name]
	}
	for name, n := range st.Namespaces {
		if !wanted(name) {
			continue
		}
		doc := of(name)
		doc.Pending, doc.PendingBytes, doc.OldestPendingSeconds = n.Pending, n.PendingBytes, seconds(n.OldestAge())
		doc.Paused, doc.Waits = s.flusher.Paused(name), newWaitDocument(s.flusher.Waits(name))
	}
	for name, why := range s.readsRefused() {
		of(name).ReadsRefused = why
	}
	if s.quotas != nil {
		for name, q := range s.quotas() {
			of(name).Quota = newQuotaDocument(&q)
		}
	}
	for name, suspicion := range s.journal.Belief.Suspects() {
		of(name).Suspect = newSuspectDocument(suspicion)
	}
	for name, n := range s.journal.Belief.OlderAnswers() {
		of(name).OlderAnswers = n
	}
	for name := range s.sizes.NearlyFull() {
		of(name)
	}
	for name, seen := range s.intruders.all() {
		of(name).ForeignWrites = &foreignDocument{seen.count, seen.last.UTC().Round(time.Millisecond), seen.key}
	}
	for name, doc := range docs {
		doc.setSize(s.sizes.Of(name))
	}
	return docs
}

// mostAttention are the first of some namespaces, those first that need attention, then those
// with the most pending writes, then by name.
func mostAttention(all []namespaceDocument, most int) []namespaceDocument {
	slices.SortStableFunc(all, func(a, b namespaceDocument) int {
		return cmp.Or(cmp.Compare(b.attention(), a.attention()), cmp.Compare(b.Pending, a.Pending))
	})
	return all[:min(most, len(all))]
}

// attention is higher the more urgently a person should look at the namespace.
func (n *namespaceDocument) attention() int {
	switch {
	case n.Suspect != nil:
		return 4
	case n.Paused != "" || n.ReadsRefused != "" || n.isFull() || n.ForeignWrites != nil:
		return 3
	case n.Waits != nil:
		return 2
	case n.Quota != nil && n.Quota.RunsOutAt != nil || n.isNearlyFull():
		return 1
	}
	return 0
}

func (n *namespaceDocument) isFull() bool { return n.BytesLimit != nil && n.Bytes >= *n.BytesLimit }

// nearlyFullPercent is from how many percent of its limit on a namespace is nearly full.
const nearlyFullPercent = 80

func (n *namespaceDocument) isNearlyFull() bool {
	return n.BytesLimit != nil && n.Bytes*100 >= *n.BytesLimit*nearlyFullPercent
}
