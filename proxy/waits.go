package proxy

import (
	"cmp"
	"slices"
	"time"
)

// waitDocument says why something is not sent upstream now.
type waitDocument struct {
	Why   string     `json:"why"`
	Until *time.Time `json:"until"` // null if that is not known
}

// newWaitDocument is nil for what waits for nothing.
func newWaitDocument(why string, until time.Time) *waitDocument {
	if why == "" {
		return nil
	}
	doc := &waitDocument{Why: why}
	if !until.IsZero() {
		until = until.UTC().Truncate(time.Millisecond)
		doc.Until = &until
	}
	return doc
}

type namespaceWait struct {
	Namespace string `json:"namespace"`
	waitDocument
}

// waits lists the namespaces that wait, by name: the one of that name, or all of them.
func (s *surface) waits(namespace string) []namespaceWait {
	docs := []namespaceWait{}
	for name := range s.journal.Stats().Namespaces {
		if namespace != "" && name != namespace {
			continue
		}
		if doc := newWaitDocument(s.flusher.Waits(name)); doc != nil {
			docs = append(docs, namespaceWait{name, *doc})
		}
	}
	slices.SortFunc(docs, func(a, b namespaceWait) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return docs
}
