package surface

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

func newDeadLetterDocument(l *journal.DeadLetter) api.ListedDeadLetter {
	return api.ListedDeadLetter{
		ID: strconv.FormatUint(l.Seq, 10), Kind: l.Kind.String(), SupersededBy: l.SupersededBy, Seq: l.Seq,
		Namespace: l.Namespace, Key: l.Key, Op: l.Op.String(), Author: l.Author,
		Status: l.Status, Error: l.Error, WrittenAt: l.WrittenAt, RefusedAt: l.RefusedAt,
	}
}

// deadLetters lists dead letters, oldest first: up to the parameter limit, after the ID in the parameter
// after.
func (s *Surface) deadLetters(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	limit, text := p.limit(), p.Text("after")
	after, err := strconv.ParseUint(text, 10, 64)
	if err != nil && text != "" {
		p.Refuse("after=%q: expected the id of a dead letter", text)
	}
	if p.Err != nil {
		return p.Err
	}
	letters, err := s.journal.DeadLetters(after, limit)
	if err != nil {
		return err
	}
	docs := make([]api.ListedDeadLetter, len(letters))
	for i := range letters {
		docs[i] = newDeadLetterDocument(&letters[i])
	}
	return writeDocument(w, http.StatusOK, api.DeadLetters{DeadLetters: docs})
}

const (
	retryPage = 1000
	retryTime = 10 * time.Minute
)

// retryAll retries all refused dead letters, or those of a namespace. It takes the oldest first, so
// that an entry's newest dead letter wins. It leaves out the dead letters that arrive meanwhile.
func (s *Surface) retryAll(w http.ResponseWriter, r *http.Request) error {
	p := Require(r, http.MethodPost, "namespace")
	namespace := p.namespace()
	ctx, end, err := s.within(w, r, p, retryTime)
	if err != nil {
		return err
	}
	defer end()
	last := s.journal.Stats().LastSeq
	doc, retried := api.Retried{}, make(map[journal.ID]uint64)
	for after := uint64(0); after < last; {
		letters, err := s.journal.DeadLetters(after, retryPage)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			break
		}
		for _, l := range letters {
			if after = l.Seq; l.Seq > last {
				break
			}
			if namespace != "" && l.Namespace != namespace {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.retryUnlessOlder(&l, retried, &doc); err != nil {
				return err
			}
		}
	}
	return writeDocument(w, http.StatusOK, doc)
}

// retryUnlessOlder retries a refused dead letter, unless a newer state of its entry is known. retried holds
// the numbers of the writes that this request has made: a later dead letter of the entry may supersede them.
func (s *Surface) retryUnlessOlder(l *journal.DeadLetter, retried map[journal.ID]uint64, doc *api.Retried) error {
	if l.Kind != journal.Refused {
		doc.Skipped++
		return nil
	}
	switch written, err := s.journal.Retry(l.Seq, max(l.Seq, retried[l.ID])); { // guard 18.8
	case errors.Is(err, journal.ErrNewer):
		doc.Skipped++
	case errors.Is(err, journal.ErrNoDeadLetter): // somebody else has retried or deleted it
	case err != nil:
		return err
	default:
		retried[l.ID] = written.Seq
		doc.Retried++
	}
	return nil
}

func (s *Surface) deadLetter(w http.ResponseWriter, r *http.Request, path string) error {
	if path == "retry" {
		return s.retryAll(w, r)
	}
	number, retry := strings.CutSuffix(path, "/retry")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return wire.Detail(http.StatusNotFound, "no such dead letter: "+strconv.Quote(number))
	}
	if retry {
		return s.retry(w, r, seq)
	}
	if err := Require(r, "GET, DELETE").Err; err != nil {
		return err
	}
	if r.Method != http.MethodDelete {
		return s.showDeadLetter(w, seq)
	}
	if err := s.journal.Discard(seq); err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, api.DeletedLetter{Deleted: true, ID: number})
}

func (s *Surface) showDeadLetter(w http.ResponseWriter, seq uint64) error {
	letter, err := s.journal.ReadDeadLetter(seq)
	if err != nil {
		return err
	}
	doc := api.DeadLetter{ListedDeadLetter: newDeadLetterDocument(&letter)}
	if letter.Op == journal.Put {
		doc.Value = &letter.Value
	}
	return writeDocument(w, http.StatusOK, doc)
}

var errNewer = wire.Detail(http.StatusConflict,
	"a newer write to the entry is known, and the retry would undo it: with force=true, it is retried all the same")

// retry retries one dead letter. It undoes a newer write only with the parameter force.
func (s *Surface) retry(w http.ResponseWriter, r *http.Request, seq uint64) error {
	p, last := Require(r, http.MethodPost, "force"), seq
	if p.truth("force") {
		last = journal.AnyWrite
	}
	if p.Err != nil {
		return p.Err
	}
	written, err := s.journal.Retry(seq, last)
	if errors.Is(err, journal.ErrNewer) {
		return errNewer
	}
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, api.RetriedLetter{Retried: true, ID: strconv.FormatUint(seq, 10), Seq: written.Seq})
}
