package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// refusedKind is the kind of a dead letter that upstream refused for good.
const refusedKind = "refused"

type deadLetterDocument struct {
	ID        string  `json:"id"`
	Kind      string  `json:"kind"`
	Seq       uint64  `json:"seq"`
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
	Op        string  `json:"op"`
	Status    int     `json:"status"`
	Error     string  `json:"error"`
	WrittenAt float64 `json:"written_at"` // Unix seconds
	RefusedAt float64 `json:"refused_at"` // Unix seconds
}

func newDeadLetterDocument(l *journal.DeadLetter) deadLetterDocument {
	return deadLetterDocument{
		ID: strconv.FormatUint(l.Seq, 10), Kind: refusedKind, Seq: l.Seq,
		Namespace: l.Namespace, Key: l.Key, Op: l.Op.String(),
		Status: l.Status, Error: l.Error, WrittenAt: l.UpdatedAt, RefusedAt: l.RefusedAt,
	}
}

// deadLetters lists dead letters, oldest first: as many as the parameter limit says,
// after the one whose ID the parameter after gives.
func (s *surface) deadLetters(w http.ResponseWriter, r *http.Request) error {
	limit, err := limitParameter(r)
	if err != nil {
		return err
	}
	after, err := afterParameter(r)
	if err != nil {
		return err
	}
	letters, err := s.journal.DeadLetters(after, limit)
	if err != nil {
		return err
	}
	docs := make([]deadLetterDocument, len(letters))
	for i := range letters {
		docs[i] = newDeadLetterDocument(&letters[i])
	}
	return writeDocument(w, http.StatusOK, map[string]any{"dead_letters": docs})
}

// afterParameter is the number of the dead letter that the list goes on after.
func afterParameter(r *http.Request) (uint64, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		return 0, nil
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, wire.Detail(http.StatusBadRequest, fmt.Sprintf("after=%q: expected the id of a dead letter", text))
	}
	return seq, nil
}

// deadLetter answers POST {id}/retry and DELETE {id}.
func (s *surface) deadLetter(w http.ResponseWriter, r *http.Request, path string) error {
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
		if err := s.journal.Discard(seq); err != nil {
			return err
		}
		return writeDocument(w, http.StatusOK, map[string]any{"deleted": true, "id": number})
	}
	written, err := s.journal.Retry(seq)
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, map[string]any{"retried": true, "id": number, "seq": written.Seq})
}
