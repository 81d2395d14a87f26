package surface

import (
	"net/http"
	"slices"
	"strings"

	"github.com/botwired/botwired/api"
)

const (
	// maxNamespaces is how many namespaces a request can ask for at most.
	maxNamespaces = 1000
	// countedAtMost bounds how many entries one request counts, an equal share of each namespace:
	// the answer comes at once, however many entries there are.
	countedAtMost = 20_000
)

// listNamespaces lists the namespaces of whose entries something is known here, by name.
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
			setSize(&docs[i].NamespaceStatus, s.opts.Sizes.Of(name))
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
