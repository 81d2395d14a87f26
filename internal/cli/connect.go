package cli

import (
	"context"
	"strings"

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
