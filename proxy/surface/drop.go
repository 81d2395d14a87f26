package surface

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// dropPending makes an entry's pending write a dead letter.
func (s *Surface) dropPending(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	id, seq := p.Entry(), p.Number("seq", "seq=%q: expected the number of a pending write")
	if p.Err != nil {
		return p.Err
	}
	ctx, cancel := s.within(w, r, flushTimeout)
	defer cancel()
	dropped, err := s.flusher.Drop(ctx, id, seq)
	if err != nil {
		return notPending(id, err)
	}
	return writeDocument(w, http.StatusOK, api.Dropped{
		Dropped: true, ID: strconv.FormatUint(dropped.Seq, 10), Seq: dropped.Seq, Namespace: id.Namespace, Key: id.Key,
	})
}

func notPending(id journal.ID, err error) error {
	if errors.Is(err, journal.ErrNotPending) {
		return wire.Detail(http.StatusNotFound, fmt.Sprintf("no such write to %s is pending", id))
	}
	return err
}
