package proxy

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/botwired/botwired/journal"
)

// Loss is the memory of an engine that notices when upstream has lost writes that it had confirmed,
// and asks it for nothing until a person decides. Its methods may be called concurrently.
type Loss interface {
	// Lost says why upstream is not believed; empty if it is.
	Lost() string
	// Accept has the engine go on with what upstream has now. It is durable when it returns.
	Accept() error
}

type acceptedDocument struct {
	Lost       string   `json:"lost"`       // why upstream was not believed; empty if it was
	Namespaces []string `json:"namespaces"` // that upstream gets back, by name
}

// decider takes a person's decision about an upstream that has lost writes.
type decider struct{ *surface }

// accept goes on with what upstream has now, and gives nothing back.
func (d decider) accept(w http.ResponseWriter, _ *http.Request) error {
	doc := acceptedDocument{Namespaces: []string{}}
	if d.loss != nil {
		doc.Lost = d.loss.Lost()
	}
	if doc.Lost != "" {
		if err := d.goOn(); err != nil {
			return err
		}
	}
	return writeDocument(w, http.StatusOK, doc)
}

// restoreAll begins to give upstream back what it has lost of all suspect namespaces. If upstream is
// not believed at all, that is every namespace of which something is known here. It ends before
// the restorations do.
func (d decider) restoreAll(w http.ResponseWriter, _ *http.Request) error {
	doc := acceptedDocument{}
	if d.loss != nil {
		doc.Lost = d.loss.Lost()
	}
	if doc.Lost != "" {
		// All namespaces are suspect before the first answer of upstream's counts.
		if err := d.restorer.distrustAll(); err != nil {
			return err
		}
		if err := d.goOn(); err != nil {
			return err
		}
	}
	doc.Namespaces = slices.Sorted(maps.Keys(d.journal.Belief.Suspects()))
	if doc.Namespaces == nil {
		doc.Namespaces = []string{}
	}
	for _, namespace := range doc.Namespaces {
		if err := d.journal.Belief.SetRestoring(namespace, true); err != nil {
			return err
		}
		if d.restorer.begin(namespace) == nil {
			return shuttingDown(w)
		}
	}
	return writeDocument(w, http.StatusOK, doc)
}

// goOn has upstream asked again, and the writes sent that wait for that.
func (d decider) goOn() error {
	err := d.loss.Accept()
	if err == nil {
		d.flusher.TryNow("")
	}
	return err
}

// namespacesAtOnce bounds how many names are read at a time.
const namespacesAtOnce = 1000

// distrustAll makes every namespace suspect of which something is known.
func (r *restorer) distrustAll() error {
	for after := ""; ; {
		names, err := r.m.journal.Keys.Namespaces(after, namespacesAtOnce, func(string) bool { return true })
		if err != nil || len(names) == 0 {
			return err
		}
		for _, namespace := range names {
			if err := r.distrust(namespace); err != nil {
				return err
			}
		}
		after = names[len(names)-1]
	}
}

// distrust keeps what is known of a namespace, whatever upstream lacks of it.
func (r *restorer) distrust(namespace string) error {
	for {
		fill := r.m.journal.BeginListing(namespace)
		fill.Distrust()
		if err := fill.Commit(nil, true); !errors.Is(err, journal.ErrChanged) {
			return err
		}
	}
}
