package surface

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

func (s *Surface) describeNamespace(n *api.NamespaceStatus) {
	n.Sealed = s.opts.Sealed != nil && s.opts.Sealed(n.Namespace)
	n.Full = s.flusher.Full(n.Namespace)
	s.describeSize(n, s.journal.Listings.BytesOf(n.Namespace))
}

// describeSize compares what upstream's last list adds up to with what the namespace may hold.
func (s *Surface) describeSize(n *api.NamespaceStatus, bytes int64) {
	n.Bytes = bytes
	if s.opts.MaxBytes == nil {
		return
	}
	if most := s.opts.MaxBytes(n.Namespace); most > 0 {
		n.BytesLimit = &most
	}
}

// nearlyFull returns the namespaces that hold 80 % of what they may, or more.
func (s *Surface) nearlyFull() (names []string) {
	s.journal.Listings.Bytes(func(namespace string, bytes int64) {
		n := api.NamespaceStatus{Namespace: namespace}
		if s.describeSize(&n, bytes); n.IsNearlyFull() { // guard 18.46
			names = append(names, namespace)
		}
	})
	return names
}

// largest returns the largest entries of a namespace that upstream holds, as far as that is known here.
func (s *Surface) largest(namespace string) []journal.Known {
	found, _, err := s.memory.Known(namespace, "", "", countedAtMost)
	if err != nil {
		return nil // the status tells of a disk that has failed
	}
	found = slices.DeleteFunc(found, func(k journal.Known) bool { return k.Pending })
	slices.SortStableFunc(found, func(a, b journal.Known) int { return cmp.Compare(b.ListBytes, a.ListBytes) })
	return found[:min(3, len(found))]
}

func clock(at time.Time) string { return at.UTC().Format("15:04 UTC") }

// namespaces describes, sorted by name, the namespaces with pending writes, used quota, little room, refused
// reads, data loss or older answers.
func (s *Surface) namespaces(st journal.Stats) []api.NamespaceStatus {
	docs := s.namespacesByName(st, func(string) bool { return true })
	sorted := make([]api.NamespaceStatus, 0, len(docs))
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		sorted = append(sorted, *docs[name])
	}
	return sorted
}

// namespacesByName describes, by name, the namespaces of [Surface.namespaces] that are wanted.
func (s *Surface) namespacesByName(st journal.Stats, wanted func(string) bool) map[string]*api.NamespaceStatus {
	docs := make(map[string]*api.NamespaceStatus)
	of := func(name string) *api.NamespaceStatus {
		switch {
		case !wanted(name):
			return &api.NamespaceStatus{} // it is thrown away
		case docs[name] == nil:
			docs[name] = &api.NamespaceStatus{Namespace: name}
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
	for name, why := range s.opts.ReadsRefused() {
		of(name).ReadsRefused = why
	}
	if s.opts.Quotas != nil {
		for name, q := range s.opts.Quotas() {
			of(name).Quota = &q
		}
	}
	for name, suspicion := range s.journal.Trust.Suspects() {
		of(name).DataLoss = &api.DataLoss{
			Since: unixTime(suspicion.Since), Missing: suspicion.Missing, Of: suspicion.Of,
		}
	}
	for name, n := range s.journal.Trust.OlderAnswers() {
		of(name).OlderAnswers = n
	}
	for _, name := range s.nearlyFull() {
		of(name)
	}
	if s.opts.NotOpened != nil {
		for name, what := range s.opts.NotOpened() {
			of(name).NotOpened = what
		}
	}
	for _, doc := range docs {
		s.describeNamespace(doc)
	}
	return docs
}

const (
	maxNamespaces = 1000
	// countedAtMost bounds the entries that one request counts, in equal shares for the namespaces, so that
	// the answer comes at once however many entries there are.
	countedAtMost = 20_000
)

func (s *Surface) listNamespaces(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	limit, match := p.number("limit", defaultLimit, 1, maxNamespaces), strings.ToLower(p.Text("match"))
	if p.Err != nil {
		return p.Err
	}
	s.awaitIndex(r.Context())
	names, err := s.journal.Keys.Namespaces(p.Text("after"), limit+1, func(name string) bool {
		return strings.Contains(strings.ToLower(name), match)
	})
	if err != nil {
		return err
	}
	var next *string
	if len(names) > limit {
		names = names[:limit]
		next = &names[limit-1]
	}
	of := s.namespacesByName(s.journal.Stats(), func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	})
	docs := make([]api.Namespace, len(names))
	for i, name := range names {
		if known := of[name]; known != nil {
			docs[i].NamespaceStatus = *known
		} else {
			docs[i].Namespace = name
			s.describeNamespace(&docs[i].NamespaceStatus)
		}
		most := countedAtMost / len(names)
		counted, err := s.journal.Keys.Count(name, most+1)
		if err != nil {
			return err
		}
		docs[i].Entries, docs[i].AtLeast = min(counted, most), counted > most
	}
	return writeDocument(w, http.StatusOK, api.Namespaces{Namespaces: docs, Next: next})
}

func newKnownDocument(k journal.Known) api.Entry {
	doc := api.Entry{Key: k.Key, State: "settled", Op: k.Op.String(), ListBytes: k.ListBytes, UpdatedAt: k.UpdatedAt}
	if k.Pending {
		doc.State = "pending"
	}
	if k.Seq > 0 {
		doc.Seq = &k.Seq
	}
	return doc
}

// entries lists the known entries of a namespace in the order of their keys. It can list more than BotWire
// can.
func (s *Surface) entries(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace, limit, prefix := p.givenNamespace(), p.limit(), p.Text("prefix")
	if prefix != "" && wire.CheckKey(prefix) != nil {
		p.Refuse("prefix=%.40q: expected the beginning of a key: at most 128 letters, digits, _, - and .", prefix)
	}
	if p.Err != nil {
		return p.Err
	}
	found, complete, err := s.memory.Known(namespace, prefix, p.Text("after"), limit+1)
	s.AgentState.SetHeader(w.Header(), namespace)
	if err != nil {
		return err
	}
	doc := api.Entries{Entries: make([]api.Entry, 0, min(limit, len(found))), Complete: complete}
	if len(found) > limit {
		found = found[:limit]
		doc.Next = &found[limit-1].Key
	}
	for _, k := range found {
		doc.Entries = append(doc.Entries, newKnownDocument(k))
	}
	return writeDocument(w, http.StatusOK, doc)
}
