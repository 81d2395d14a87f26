package proxy

import (
	"time"

	"github.com/botwired/botwired/internal/identity"
)

// undoubted is the identity of a server that has nobody to doubt it.
type undoubted struct{}

func (undoubted) Stands(time.Time) bool { return true }

func (undoubted) Epoch() uint64 { return 0 }

func (undoubted) State() identity.State { return identity.State{Start: identity.Same} }

// identityDocument says whether the daemon is where it was, and why it takes what it knew for
// old, if it does.
type identityDocument struct {
	Start  string         `json:"start"` // "same", "new", "rebooted", "copied", "restored" or "unknown"
	Newest *doubtDocument `json:"newest_doubt"`
	// Doubts counts them since the start, and because of it, by reason.
	Doubts map[string]int `json:"doubts"`
}

type doubtDocument struct {
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
	At     time.Time `json:"at"`
}

func newIdentityDocument(s identity.State) identityDocument {
	doc := identityDocument{Start: string(s.Start), Doubts: make(map[string]int, len(s.Doubts))}
	for reason, n := range s.Doubts {
		doc.Doubts[string(reason)] = n
	}
	if d := s.Newest; d != nil {
		doc.Newest = &doubtDocument{string(d.Reason), d.Detail, d.At.UTC().Round(time.Millisecond)}
	}
	return doc
}
