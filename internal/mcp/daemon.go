package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
)

const callTime = time.Minute

// daemon makes requests to a daemon. Its errors are written for agents.
type daemon struct{ *api.Client }

func newDaemon(o Options) *daemon {
	o.Daemon.UserAgent, o.Daemon.FirstByte, o.Daemon.Explain = "botwired-mcp/"+o.Version, callTime, explained
	if o.Daemon.Transport == nil {
		o.Daemon.Transport = api.Transport(o.Daemon.Listen)
	}
	o.Daemon.Transport = listening{o.Daemon.Transport}
	return &daemon{api.NewClient(o.Daemon)}
}

func explained(r api.Request, err error) error {
	if answer, isRefused := errors.AsType[*api.Refused](err); isRefused {
		return &refusal{answer}
	}
	switch {
	case errors.Is(err, api.ErrForeign):
		return errors.New("the program at the daemon's address is not botwired: its answer is not one of botwired's")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, api.ErrSilent):
		err = errors.New("it did not answer in time")
	}
	if op, ok := errors.AsType[*net.OpError](err); r.Method == "" || ok && op.Op == "dial" { // the daemon has not received it
		return fmt.Errorf("cannot reach the botwired daemon: %w: check that it runs, and try again", err)
	}
	return fmt.Errorf("the botwired daemon has not answered: %w: "+
		"the write may have been made, or not: read the entry before you try again", err)
}

type refusal struct{ answer *api.Refused }

func (r *refusal) Unwrap() error { return r.answer }

// meanings explains statuses to an agent. For other statuses, the agent gets only the daemon's detail.
var meanings = map[int]string{
	http.StatusServiceUnavailable:  "upstream cannot be asked now, and nothing here answers this",
	http.StatusInsufficientStorage: "botwired's disk or journal is full: nothing was written, and reading still works",
	http.StatusBadGateway:          "upstream failed: a write may have been made, or not: read the entry before you try again",
	http.StatusGatewayTimeout:      "upstream did not answer: a write may have been made, or not: read the entry before you try again",
}

// maxDetail limits what an error repeats of an answer, in characters.
const maxDetail = 500

func (r *refusal) Error() string {
	means := meanings[r.answer.Status]
	retry := r.answer.Header.Get("Retry-After")
	switch upstreams := r.answer.Meaning(); {
	case r.answer.Status == http.StatusGatewayTimeout && newWritten(r.answer.Header).State == "pending": // its namespace writes through
		means, retry = "the write is made, and goes upstream by itself: do not repeat it", ""
	case r.answer.WantsToken():
		means = "the botwired daemon wants its token, and this server has another one or none: a person has to set it"
	case upstreams != "":
		means = upstreams + ". Nothing was written"
		if strings.Contains(upstreams, api.RemedyAccess) {
			means += ". Trying again does not help until a person has done that: botwired status and botwired doctor say more"
		}
	}
	var doc struct {
		Detail any `json:"detail"`
	}
	text := ""
	if json.Unmarshal(r.answer.Body, &doc) == nil {
		text, _ = doc.Detail.(string) // BotWire's 422 echoes the value, so it gives no text here
		text, _ = cut(text, 0, maxDetail)
	}
	if means != "" {
		text = strings.TrimSuffix(means+" ("+text+")", " ()")
	}
	if text == "" {
		text = fmt.Sprintf("the botwired daemon has refused this with status %d", r.answer.Status)
	}
	if retry != "" {
		text += ": try again in " + retry + " s"
	}
	return text
}
