package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
)

// connect loads the configuration and returns a client of its daemon.
func (f *Settings) connect() (*attach.Client, error) {
	loaded, err := f.Load(nil)
	if err != nil {
		return nil, err
	}
	return attach.Connect(loaded, build.Version())
}

// ask makes a request, and prints the answer: as it came if asJSON is set, and else with print.
func ask[T any](ctx context.Context, p *Program, c *attach.Client, r api.Request, asJSON bool, print func(answer *T) error) error {
	answer := new(T)
	got, err := c.Read(ctx, r, answer)
	switch {
	case err != nil:
		return err
	case asJSON:
		return term.JSON(p.Stdout, got.Body)
	}
	return print(answer)
}

func joined(names ...string) string { return strings.Join(names, "/") }

// entryID names an entry.
type entryID struct{ Namespace, Key string }

func (id entryID) String() string { return id.Namespace + "/" + id.Key }

// byHandTime is how long a person waits for the daemon to carry out a decision. A request of the entry that is
// under way ends first.
const byHandTime = time.Minute

// byHandGrace is how much longer than its time the daemon may take to answer that it is up.
const byHandGrace = 3 * time.Second

// byHand is the request that tells the daemon what a person has decided.
func byHand(path string, query url.Values) api.Request {
	return api.Request{Method: http.MethodPost, Path: api.Surface(strings.Split(path, "/")...), Query: query, Within: byHandTime + byHandGrace}
}

func entryQuery(id entryID) url.Values {
	return url.Values{"namespace": {id.Namespace}, "key": {id.Key}}
}

// decideLoss sends the daemon a person's decision about a bucket.
func decideLoss(decision string) api.Request {
	return byHand(decision, url.Values{"namespace": {"*"}})
}
