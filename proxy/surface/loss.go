package surface

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
)

// Loss is the memory of an engine that notices when upstream has lost writes that it had confirmed,
// and asks it for nothing until a person decides. Its methods may be called concurrently.
type Loss interface {
	// Lost says why upstream is not believed; empty if it is.
	Lost() string
	// Accept has the engine go on with what upstream has now. It is durable when it returns.
	Accept() error
}

// acceptUpstream goes on with what upstream has now, and gives nothing back.
func (s *Surface) acceptUpstream(w http.ResponseWriter) error {
	lost := s.lost()
	if lost != "" {
		if err := s.goOn(); err != nil {
			return err
		}
	}
	return writeDocument(w, http.StatusOK, api.Accepted{Lost: lost, Namespaces: []string{}})
}

// lost says why upstream is not believed; empty if it is.
func (s *Surface) lost() string {
	if s.opts.Loss == nil {
		return ""
	}
	return s.opts.Loss.Lost()
}

// restoreAll begins to give upstream back what it has lost of all namespaces with data loss. If upstream is
// not believed at all, that is every namespace of which something is known here. It ends before
// the restorations do.
func (s *Surface) restoreAll(w http.ResponseWriter, p *Parameters) error {
	for _, ofOne := range []string{"timeout", "stop"} {
		if p.values.Has(ofOne) {
			return wire.Detail(http.StatusBadRequest, ofOne+" is for one namespace")
		}
	}
	doc := api.Accepted{Lost: s.lost()}
	if doc.Lost != "" {
		// All namespaces have data loss before the first answer of upstream's counts.
		if err := s.restorer.DistrustAll(); err != nil {
			return err
		}
		if err := s.goOn(); err != nil {
			return err
		}
	}
	doc.Namespaces = slices.Sorted(maps.Keys(s.journal.Trust.Suspects()))
	if doc.Namespaces == nil {
		doc.Namespaces = []string{}
	}
	for _, namespace := range doc.Namespaces {
		if err := s.journal.Trust.SetRestoring(namespace, true); err != nil {
			return err
		}
		if s.restorer.Begin(namespace) == nil {
			return context.Canceled // the daemon stops
		}
	}
	return writeDocument(w, http.StatusOK, doc)
}

// goOn has upstream asked again, and the writes sent that wait for that.
func (s *Surface) goOn() error {
	err := s.opts.Loss.Accept()
	if err == nil {
		s.flusher.TryNow("")
	}
	return err
}
