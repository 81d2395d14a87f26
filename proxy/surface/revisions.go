package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

func (s *Surface) listRevisions(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	id, to := p.Entry(), p.Revision("to")
	if p.Err != nil {
		return p.Err
	}
	versions, missing, err := s.memory.Versions(r.Context(), id, to)
	s.AgentState.SetHeader(w.Header(), id.Namespace)
	if err != nil {
		return err
	}
	doc := api.Revisions{Namespace: id.Namespace, Key: id.Key, Complete: missing == nil}
	if missing != nil {
		doc.Why = fmt.Sprintf("the states that upstream keeps are missing: %v", missing)
	}
	for i := range versions {
		doc.Revisions = append(doc.Revisions, revisionOf(&versions[i]))
	}
	tag := []string{versions[0].Tag()}
	w.Header()["Etag"], w.Header()[wire.OwnETag] = tag, tag
	return writeDocument(w, http.StatusOK, &doc)
}

// listLost lists the states that have lost a conflict between two hosts, the last one first, up to the parameter limit: from
// the one on that follows the parameter after.
func (s *Surface) listLost(w http.ResponseWriter, _ *http.Request, p *Parameters) error {
	namespace, limit := p.namespace(), p.limit()
	after := p.Number("after", "after=%.40q: expected next of the page before")
	if p.Err != nil {
		return p.Err
	}
	versions, err := s.memory.Lost(namespace, after, limit)
	if err != nil {
		return err
	}
	doc := api.Lost{Lost: make([]api.LostState, len(versions))}
	for i := range versions {
		v := &versions[i]
		doc.Lost[i] = api.LostState{
			Namespace: v.Namespace, Key: v.Key, Revision: given(v.Revision), Op: v.Op.String(), UpdatedAt: v.WrittenAt, LostAt: given(v.LostAt),
			Host: v.Host, Here: v.Here, Author: v.Author, Seq: given(v.Seq),
		}
	}
	if len(versions) == limit {
		next := strconv.FormatUint(versions[limit-1].Order, 10)
		doc.Next = &next
	}
	return writeDocument(w, http.StatusOK, &doc)
}

func revisionOf(v *memory.Version) api.Revision {
	d := api.Revision{
		Revision: given(v.Revision), State: string(v.State), Op: v.Op.String(), UpdatedAt: v.WrittenAt,
		Host: v.Host, Here: v.Here, Author: v.Author, Seq: given(v.Seq), LostAt: given(v.LostAt), Apart: v.Apart, Gap: string(v.Gap),
	}
	if v.Op == journal.Put {
		d.Value, d.Bytes, d.CreatedAt = &v.Value, wire.CodePoints(v.Value), given(v.CreatedAt)
	}
	return d
}

// given returns nil for 0.
func given[T uint64 | float64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}

// Undo undoes the newest write to an entry, or all writes since the version that to names.
func (s *Surface) Undo(ctx context.Context, q *memory.Request, to memory.VersionName) (memory.Result, error) {
	r, undone, now, err := s.memory.Undo(ctx, q, to)
	if err != nil {
		return r, err
	}
	body, err := json.Marshal(&api.Undone{Namespace: q.ID.Namespace, Key: q.ID.Key, Undone: revisionOf(&undone), Now: revisionOf(&now)})
	r.SetBody(append(body, '\n'))
	return r, err
}
