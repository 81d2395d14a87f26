package botwire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// maxReason bounds how much of an answer's text the reason of a failure keeps, in bytes.
const maxReason = 200

// answer is a response, read completely.
type answer struct {
	method string // the request's
	status int
	header http.Header
	body   []byte
	looped bool // the request came back to this daemon, or to one whose upstream is this one
}

func (a *answer) decode(doc any) bool { return json.Unmarshal(a.body, doc) == nil }

// isObject reports whether the answer is a JSON object. A captive portal answers with a page.
func (a *answer) isObject() bool {
	var doc map[string]json.RawMessage
	return a.decode(&doc) && doc != nil
}

// isPage reports whether the answer is for a browser: BotWire sends none.
func (a *answer) isPage() bool {
	return strings.HasPrefix(strings.ToLower(a.header.Get("Content-Type")), "text/html")
}

// refusesRequest reports whether the answer is BotWire's own refusal of this very request: in BotWire's
// form, with a status that BotWire uses to refuse such requests. A DELETE has neither a body nor
// parameters that could be wrong.
//
// BotWire's form is an object with the single member detail: a sentence, or the list of faults that its
// framework found in the request. A gateway's error has other members, even if it has a detail (RFC
// 9457), or is no object, or is empty, or is sent as a page.
func (a *answer) refusesRequest() bool {
	detail, sentence := a.detail()
	isSentence := sentence != ""
	switch a.status {
	case http.StatusBadRequest:
		return isSentence
	case http.StatusRequestEntityTooLarge:
		return isSentence && a.method == http.MethodPut
	case http.StatusUnprocessableEntity:
		return isSentence && a.method != http.MethodDelete || faultsInRequest(detail, a.method)
	}
	return false
}

// detail returns the single member of an answer in BotWire's form, and the member's text if it is a
// sentence.
func (a *answer) detail() (member json.RawMessage, sentence string) {
	if a.isPage() { // guard 15.3
		return nil, ""
	}
	var doc map[string]json.RawMessage
	if !a.decode(&doc) || len(doc) != 1 { // guard 15.4
		return nil, ""
	}
	member = doc["detail"]
	if json.Unmarshal(member, &sentence) != nil {
		return member, ""
	}
	return member, sentence
}

// saysNamespaceFull reports whether the answer is BotWire's own statement to a PUT that the namespace
// is full. This answer has never been seen: BotWire's published server has no such limit, and answers a
// value that is too large with 400. So the sentence decides: a 413 may also be about the value, and a
// 507 about the service's own disk.
func (a *answer) saysNamespaceFull() bool {
	if a.method != http.MethodPut {
		return false
	}
	_, sentence := a.detail()
	says := func(word string) bool { return strings.Contains(strings.ToLower(sentence), word) }
	switch a.status {
	case http.StatusRequestEntityTooLarge:
		return says("namespace") || says("storage") || says("quota")
	case http.StatusInsufficientStorage:
		return says("namespace") || says("quota")
	}
	return false
}

// faultsInRequest reports whether detail is a list of faults, each in a part that a request of this
// method has.
func faultsInRequest(detail json.RawMessage, method string) bool {
	part := map[string]string{http.MethodPut: "body", http.MethodGet: "query"}[method]
	var faults []struct {
		Type, Msg string
		Loc       []any
	}
	if json.Unmarshal(detail, &faults) != nil || len(faults) == 0 {
		return false
	}
	for _, f := range faults {
		if f.Type+f.Msg == "" || len(f.Loc) > 0 && f.Loc[0] != part && f.Loc[0] != "path" { // guard 15.5
			return false
		}
	}
	return true
}

// own reports whether the answer has BotWire's own shape: a gateway's JSON has other fields.
func (a *answer) own() bool {
	var doc map[string]json.RawMessage
	return a.decode(&doc) && (len(doc) == 1 && doc["detail"] != nil || a.status == http.StatusPaymentRequired)
}

// failure returns the answer as an error.
func (a *answer) failure() *upstream.Error {
	return &upstream.Error{
		Verdict: meaning(answered, a), Status: a.status, Reason: a.reason(),
		RetryAfter: retryAfter(a.header), Answer: a.forCallers(),
		Answered: a.own(), NamespaceFull: a.saysNamespaceFull(), Overloaded: a.status == http.StatusServiceUnavailable,
	}
}

// dateOf returns when an answer was made, by the clock of the server that made it (RFC 9110, section
// 6.6.1). It returns zero if the answer has no Date, or comes from a cache (RFC 9111, section 5.1).
func dateOf(h http.Header) time.Time {
	if age := h.Get("Age"); age != "" && age != "0" { // guard 19.22
		return time.Time{}
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return date
}

// reason describes the answer for people, shortened: BotWire's detail, if the answer has one.
func (a *answer) reason() string {
	var doc struct{ Detail json.RawMessage }
	text := ""
	if a.decode(&doc) && json.Unmarshal(doc.Detail, &text) != nil {
		text = validationErrors(doc.Detail)
	}
	return fmt.Sprintf("HTTP %d: %.*s", a.status, maxReason, cmp.Or(text, "an answer that is not BotWire's"))
}

// validationErrors returns the errors that BotWire's framework found in a request as text; empty if
// detail is no such list. It leaves out the parts of the request that an error quotes, because they may
// hold a value.
func validationErrors(detail json.RawMessage) string {
	var list []struct {
		Type, Msg string
		Loc       []any // names and positions
	}
	if json.Unmarshal(detail, &list) != nil {
		return ""
	}
	var texts []string
	for _, e := range list {
		var path []string
		for _, step := range e.Loc {
			path = append(path, fmt.Sprint(step))
		}
		text := e.Type
		if len(path) > 0 {
			text += " at " + strings.Join(path, ".")
		}
		if e.Msg != "" {
			text += ": " + e.Msg
		}
		if text = strings.TrimLeft(text, ": "); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// confirmsPut reports whether BotWire itself confirms that it holds the entry as it was sent.
func (a *answer) confirmsPut(id journal.ID) bool {
	var doc struct {
		Namespace, Key string
		Stored         bool
	}
	if !a.decode(&doc) {
		return false // guard 13.2
	}
	named := doc.Namespace == id.Namespace && doc.Key == id.Key // guard 13.1
	return a.status == http.StatusOK && named && doc.Stored
}

// confirmsDelete reports whether BotWire itself confirms that it does not hold the entry.
func (a *answer) confirmsDelete(id journal.ID) bool {
	if a.saysAbsent(id) {
		return true
	}
	var doc struct {
		Namespace, Key string
		Deleted        bool
	}
	return a.decode(&doc) && a.status == http.StatusOK && doc.Namespace == id.Namespace && doc.Key == id.Key && doc.Deleted
}

// saysAbsent reports whether the answer is BotWire's own 404 about the entry.
func (a *answer) saysAbsent(id journal.ID) bool {
	var doc struct{ Detail string }
	ok := a.decode(&doc)
	return ok && a.status == http.StatusNotFound && doc.Detail == wire.NotFoundDetail(id.Namespace, id.Key) // guard 9.6
}
