package cli

import (
	"context"
	"io"
	"strings"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
)

// connect loads the configuration and returns a client of its daemon.
func (f *Settings) connect() (*attach.Client, error) {
	loaded, err := f.Load(nil)
	if err != nil {
		return nil, err
	}
	return attach.Connect(loaded, build.Version())
}

// show asks the daemon, and has print judge the answer and print it.
func (f *Settings) show(ctx context.Context, r api.Request, print func(io.Writer, *attach.Client, []byte) error) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	body, err := c.Ask(ctx, r)
	if err != nil {
		return err
	}
	return print(f.process.Screen(), c, body)
}

// watch is show at every tick, until ctx ends.
func (f *Settings) watch(ctx context.Context, r api.Request, print func(io.Writer, *attach.Client, []byte) error) error {
	if !f.process.IsTerminal(f.process.Stdout) {
		return Usagef("--watch draws on a terminal, and standard output is none: expected no --watch")
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	return f.process.Watch(ctx, func(w io.Writer) error {
		body, err := c.Ask(ctx, r)
		if err != nil {
			return err
		}
		return print(w, c, body)
	})
}

func joined(names ...string) string { return strings.Join(names, "/") }

// entryID names an entry.
type entryID struct{ Namespace, Key string }

func (id entryID) String() string { return id.Namespace + "/" + id.Key }
