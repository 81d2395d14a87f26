package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

// asks returns the RunE of a command that asks the daemon: run gets a client of it.
func (f *Settings) asks(run func(ctx context.Context, c *attach.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.connect()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// ask makes a request and prints the answer: unchanged if asJSON is set, otherwise with print.
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

type entryID struct{ Namespace, Key string }

func (id entryID) String() string { return id.Namespace + "/" + id.Key }

// byHandTime is how long the daemon may take to carry out a user's decision. A request in flight for
// the entry ends first.
const byHandTime = time.Minute

// byHandGrace is extra time for the daemon to answer that the time is up.
const byHandGrace = 3 * time.Second

func byHand(path string, query url.Values) api.Request {
	return api.Request{Method: http.MethodPost, Path: api.Surface(strings.Split(path, "/")...), Query: query, Within: byHandTime + byHandGrace}
}

func entryQuery(id entryID) url.Values {
	return url.Values{"namespace": {id.Namespace}, "key": {id.Key}}
}

// decideLoss returns the request that sends the daemon a user's decision about a bucket that has lost
// writes.
func decideLoss(decision string) api.Request {
	return byHand(decision, url.Values{"namespace": {"*"}})
}
