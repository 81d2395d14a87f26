package surface

import (
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/identity"
)

func newIdentityDocument(s identity.State) api.Identity {
	doc := api.Identity{Start: string(s.Start), Doubts: make(map[string]int, len(s.Doubts))}
	for reason, n := range s.Doubts {
		doc.Doubts[string(reason)] = n
	}
	if d := s.Newest; d != nil {
		doc.Newest = &api.Doubt{Reason: string(d.Reason), Detail: d.Detail, At: d.At.UTC().Round(time.Millisecond)}
	}
	return doc
}
