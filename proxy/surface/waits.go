package surface

import (
	"cmp"
	"slices"
	"time"

	"github.com/botwired/botwired/api"
)

// newWaitDocument is nil for what waits for nothing.
func newWaitDocument(why string, until time.Time) *api.Wait {
	if why == "" {
		return nil
	}
	doc := &api.Wait{Why: why}
	if !until.IsZero() {
		until = until.UTC().Truncate(time.Millisecond)
		doc.Until = &until
	}
	return doc
}

// waits lists the namespaces that wait, by name: the one of that name, or all of them.
func (s *Surface) waits(namespace string) []api.NamespaceWait {
	docs := []api.NamespaceWait{}
	for name := range s.journal.Stats().Namespaces {
		if namespace != "" && name != namespace {
			continue
		}
		if doc := newWaitDocument(s.flusher.Waits(name)); doc != nil {
			docs = append(docs, api.NamespaceWait{Namespace: name, Wait: *doc})
		}
	}
	slices.SortFunc(docs, func(a, b api.NamespaceWait) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return docs
}
