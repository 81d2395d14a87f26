package surface

import (
	"maps"
	"slices"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
)

func setSize(n *api.NamespaceStatus, size journal.NamespaceSize) {
	n.Bytes = size.Bytes
	if size.Limited() {
		n.BytesLimit = &size.Limit
	}
	n.BytesLimitLearned = stamp(size.LearnedUntil)
}

// clock is a time as people write it, in UTC.
func clock(at time.Time) string { return at.UTC().Format("15:04 UTC") }

// namespaces describes, by name, the namespaces with pending writes, those that have used
// something of their quota, those that are nearly full, those that upstream lets nobody read, and
// those of which upstream has lost entries or has answered with older states.
func (s *Surface) namespaces(st journal.Stats) []api.NamespaceStatus {
	docs := s.namespacesByName(st, func(string) bool { return true })
	sorted := make([]api.NamespaceStatus, 0, len(docs))
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		sorted = append(sorted, *docs[name])
	}
	return sorted
}

// namespacesByName describes those of them that are wanted.
func (s *Surface) namespacesByName(st journal.Stats, wanted func(string) bool) map[string]*api.NamespaceStatus {
	docs := make(map[string]*api.NamespaceStatus)
	of := func(name string) *api.NamespaceStatus {
		switch {
		case !wanted(name):
			return &api.NamespaceStatus{} // nobody reads it
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
			Since: unixTime(suspicion.Since), Missing: suspicion.Missing, Of: suspicion.Of, Restoring: suspicion.Restoring,
		}
	}
	for name, n := range s.journal.Trust.OlderAnswers() {
		of(name).OlderAnswers = n
	}
	for name := range s.opts.Sizes.NearlyFull() {
		of(name)
	}
	for name, doc := range docs {
		setSize(doc, s.opts.Sizes.Of(name))
	}
	return docs
}
