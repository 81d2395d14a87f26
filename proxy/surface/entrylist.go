package surface

import (
	"net/http"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

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

// entries lists what is known here of a namespace, in the order of the keys: more than BotWire
// can list.
func (s *Surface) entries(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace, limit, prefix := p.givenNamespace(), p.limit(), p.Text("prefix")
	if prefix != "" && wire.CheckKey(prefix) != nil {
		p.Refuse("prefix=%.40q: expected the beginning of a key: at most 128 letters, digits, _, - and .", prefix)
	}
	if p.Err != nil {
		return p.Err
	}
	found, complete, err := s.memory.Known(namespace, prefix, p.Text("after"), limit+1)
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
