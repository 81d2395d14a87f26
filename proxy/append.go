package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// appendPath is where an append is, under surfacePrefix.
const appendPath = "append"

// maxSeparator bounds a separator, in characters.
const maxSeparator = 100

// appender adds a text to the end of an entry's value. It reads the entry and writes it on the
// condition that nobody has written it meanwhile, until that holds: so every append that is
// acknowledged stays, whoever else writes the entry (contract 5). Appends to one entry take turns.
type appender struct {
	*memory
	turns *turns
}

// answer answers as a PUT of the whole value would be answered.
func (a appender) answer(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := require(r, http.MethodPost, "namespace", "key", "separator"); err != nil {
		return err
	}
	id, err := entryParameter(r)
	if err != nil {
		return err
	}
	separator, err := separatorParameter(r)
	if err != nil {
		return err
	}
	wanted, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	c.enter(a.memory, putEntry, id.Namespace)
	text, room, refusal := a.bodies.ReadPut(w, r, id.Namespace, id.Key)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	observed(w).put(text)
	endTurn, err := a.turns.await(r.Context(), id)
	if err != nil {
		return err
	}
	defer endTurn()
	release := func() { room.Release(); endTurn() }
	for {
		item, err := look(a.memory, id)
		if err == nil {
			err = wanted.refuseWrite(item)
		}
		if err == nil {
			err = a.try(w, r, id, item, separator, text, release, c)
			if isUnmet(err) { // another write was faster
				err = errOvertaken
			}
		}
		if !isOvertaken(err) {
			return err
		}
		if err := r.Context().Err(); err != nil {
			return err
		}
	}
}

// look is the state that a GET would be answered with.
func look(m *memory, id journal.ID) (*cache.Item, error) {
	_, found, err := m.lookUp(id)
	if err != nil {
		return nil, err
	}
	item, _, err := m.present(id, found)
	return item, err
}

// try writes the longer value, if the entry is still as it was looked at.
func (a appender) try(
	w http.ResponseWriter, r *http.Request, id journal.ID, item *cache.Item, separator, text string, release func(), c *call,
) error {
	value, err := appended(item, separator, text)
	if err != nil {
		return err
	}
	return putValue(a.memory, w, r, newPut(id, value), asItIs(item), release, c) // guard 5.14
}

// appended is the value of an entry with a text at its end. The separator stands between the two if
// there is anything before it.
func appended(item *cache.Item, separator, text string) (string, error) {
	if item.Body == nil {
		return text, nil
	}
	var entry struct{ Value string }
	if err := json.Unmarshal(item.Body, &entry); err != nil {
		return "", err
	}
	if entry.Value != "" {
		text = separator + text
	}
	if value := entry.Value + text; wire.CheckSize(value) == nil {
		return value, nil
	}
	return "", wire.Detail(http.StatusRequestEntityTooLarge, fmt.Sprintf(
		"the value has %d characters, and %d more do not fit: BotWire takes at most 100000. Nothing was written: go on under another key",
		wire.CodePoints(entry.Value), wire.CodePoints(text)))
}

// asItIs are the conditions that an entry is still in a state.
func asItIs(item *cache.Item) conditions {
	if item.Body == nil {
		return conditions{noneMatch: tagList{given: true, any: true}}
	}
	return conditions{match: tagList{given: true, tags: []entityTag{{text: item.Tag[0]}}}}
}

// isUnmet reports whether a condition of a write did not hold.
func isUnmet(err error) bool {
	refusal, ok := errors.AsType[*wire.Refusal](err)
	return ok && refusal.Status == http.StatusPreconditionFailed
}

func separatorParameter(r *http.Request) (string, error) {
	separator := r.URL.Query().Get("separator")
	if !utf8.ValidString(separator) || utf8.RuneCountInString(separator) > maxSeparator {
		return "", wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("the parameter separator is wrong: expected at most %d characters in UTF-8", maxSeparator))
	}
	return separator, nil
}
