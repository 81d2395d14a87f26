package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/botwired/botwired/journal"
)

// keptNamespace is one of whose entries something is known here.
type keptNamespace struct {
	namespaceDocument
	Entries int `json:"entries"` // as far as is known here
	// AtLeast says that Entries is not all: the others were not counted.
	AtLeast bool `json:"entries_at_least"`
}

const (
	// maxNamespaces is how many namespaces a request can ask for at most.
	maxNamespaces = 1000
	// countedAtMost bounds how many entries one request counts, and countedFirst how many of
	// them it counts of each namespace before the large ones share the rest: the answer comes
	// at once, however many entries there are.
	countedAtMost = 20_000
	countedFirst  = countedAtMost / maxNamespaces / 2
)

// namespaces lists the namespaces of whose entries something is known here, by name.
func (c catalogue) namespaces(w http.ResponseWriter, r *http.Request) error {
	limit, err := numberParameter(r, "limit", defaultLimit, 1, maxNamespaces)
	if err != nil {
		return err
	}
	c.awaitIndex(r.Context())
	query := r.URL.Query()
	match := strings.ToLower(query.Get("match"))
	names, err := c.journal.Keys.Namespaces(query.Get("after"), limit+1, func(name string) bool {
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
	of := c.namespacesByName(c.journal.Stats(), func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	})
	docs := make([]keptNamespace, len(names))
	for i, name := range names {
		if known := of[name]; known != nil {
			docs[i].namespaceDocument = *known
		} else {
			docs[i].Namespace = name
			docs[i].setSize(c.sizes.Of(name))
		}
	}
	if err := countEntries(c.journal.Keys, docs, countedAtMost, countedFirst); err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, map[string]any{"namespaces": docs, "next": next})
}

// countEntries counts so many entries of each namespace first, which is all of the small ones, and
// then shares what is left among the large ones.
func countEntries(keys *journal.Keys, docs []keptNamespace, left, first int) error {
	count := func(doc *keptNamespace, most int) (err error) {
		doc.Entries, err = keys.Count(doc.Namespace, most+1)
		if doc.AtLeast = doc.Entries > most; doc.AtLeast {
			doc.Entries = most
		}
		return err
	}
	var large []*keptNamespace
	for i := range docs {
		if err := count(&docs[i], first); err != nil {
			return err
		}
		if left -= docs[i].Entries; docs[i].AtLeast {
			large = append(large, &docs[i])
			left += docs[i].Entries // they are counted anew
		}
	}
	for i, doc := range large {
		if err := count(doc, max(first, left/(len(large)-i))); err != nil {
			return err
		}
		left -= doc.Entries
	}
	return nil
}
