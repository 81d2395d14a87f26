package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/botwired/botwired/journal"
)

// maxReason bounds what is kept of an answer's text as the reason of a failure.
const maxReason = 200

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) decode(doc any) bool { return json.Unmarshal(a.body, doc) == nil }

// botwires reports whether the answer is one of BotWire's refusals: they have a
// detail, which is not always a text.
func (a *answer) botwires() bool {
	var doc struct{ Detail json.RawMessage }
	return a.decode(&doc) && len(doc.Detail) > 0
}

// reason is what the answer says, cut short: BotWire's detail if it is one.
func (a *answer) reason() string {
	var doc struct{ Detail string }
	text := "an answer that is not BotWire's"
	if a.decode(&doc) && doc.Detail != "" {
		text = doc.Detail
	}
	return fmt.Sprintf("HTTP %d: %.*s", a.status, maxReason, text)
}

func (a *answer) failure() *RequestError {
	return &RequestError{
		verdict: a.classify(), status: a.status,
		retryAfter: retryAfter(a.header, time.Now()), err: errors.New(a.reason()),
	}
}

// RequestError is a request that brought no usable answer.
type RequestError struct {
	verdict     Verdict
	status      int
	retryAfter  time.Duration
	unreachable bool // there was not even a connection
	err         error
}

func (e *RequestError) Error() string { return e.err.Error() }
func (e *RequestError) Unwrap() error { return e.err }

func (e *RequestError) outcome() Outcome {
	return Outcome{
		Verdict: e.verdict, Status: e.status, Reason: e.err.Error(), RetryAfter: e.retryAfter, unreachable: e.unreachable,
	}
}

// confirms reports whether an answer is BotWire's own word that it holds the write.
func confirms(a *answer, w journal.Write) bool {
	var doc struct {
		Namespace, Key, Detail string
		Stored, Deleted        bool
	}
	if !a.decode(&doc) {
		return false
	}
	named := doc.Namespace == w.Namespace && doc.Key == w.Key
	if w.Op == journal.Put {
		return a.status == http.StatusOK && named && doc.Stored
	}
	if a.status == http.StatusNotFound {
		return doc.Detail == notFound(w.ID)
	}
	return a.status == http.StatusOK && named && doc.Deleted
}

// notFound is what BotWire says of an entry that it does not hold.
func notFound(id journal.ID) string { return "Key not found: " + id.String() }
