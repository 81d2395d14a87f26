package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/wire"
)

type deadLetterDocument struct {
	ID        string  `json:"id"`
	Seq       uint64  `json:"seq"`
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
	Op        string  `json:"op"`
	Status    int     `json:"status"`
	Error     string  `json:"error"`
	WrittenAt float64 `json:"written_at"` // Unix seconds
	RefusedAt float64 `json:"refused_at"` // Unix seconds
}

// deadLetters lists all dead letters, oldest first.
func (s *Server) deadLetters(w http.ResponseWriter, _ *http.Request) error {
	letters, err := s.opts.Journal.DeadLetters(0, maxPendingLimit)
	if err != nil {
		return err
	}
	docs := []deadLetterDocument{}
	for _, l := range letters {
		docs = append(docs, deadLetterDocument{
			ID: strconv.FormatUint(l.Seq, 10), Seq: l.Seq, Namespace: l.Namespace, Key: l.Key, Op: l.Op.String(),
			Status: l.Status, Error: l.Error, WrittenAt: l.UpdatedAt, RefusedAt: l.RefusedAt,
		})
	}
	return writeDocument(w, http.StatusOK, map[string]any{"dead_letters": docs})
}

// deadLetter answers POST {id}/retry and DELETE {id}.
func (s *Server) deadLetter(w http.ResponseWriter, r *http.Request, path string) error {
	number, retry := strings.CutSuffix(path, "/retry")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return wire.Detail(http.StatusNotFound, "no such dead letter: "+strconv.Quote(number))
	}
	method := http.MethodDelete
	if retry {
		method = http.MethodPost
	}
	if err := require(r, method); err != nil {
		return err
	}
	if !retry {
		if err := s.opts.Journal.Discard(seq); err != nil {
			return err
		}
		return writeDocument(w, http.StatusOK, map[string]any{"deleted": true, "id": number})
	}
	written, err := s.opts.Journal.Retry(seq)
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, map[string]any{"retried": true, "id": number, "seq": written.Seq})
}
