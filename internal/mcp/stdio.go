package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeStdio serves one client until the client leaves or ctx ends. It writes only the protocol's
// messages to out, one per line, and closes neither in nor out. When in ends, it first answers the
// requests received before. When ctx ends, it returns at once, even if the client no longer reads. An
// invalid line ends it with an error.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ended := make(chan error, 1)
	go func() {
		ended <- s.newServer().Run(ctx, &stdio{sdk.IOTransport{Reader: io.NopCloser(in), Writer: openWriter{out}}})
	}()
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, errClientLeft) {
			return nil
		}
		return fmt.Errorf("cannot read the client's messages: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// stdio wraps the library's transport, which would drop open requests when its input ends.
type stdio struct{ sdk.IOTransport }

func (t *stdio) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.IOTransport.Connect(ctx)
	c := &answering{Connection: inner, open: make(map[jsonrpc.ID]struct{})}
	c.changed.L = &c.mu
	return c, err
}

var errClientLeft = errors.New("the client takes no more answers")

// answering reports the end of the input only when every request is answered, or the client accepts no
// more answers.
type answering struct {
	sdk.Connection
	mu      sync.Mutex // guards the fields below
	open    map[jsonrpc.ID]struct{}
	closed  bool
	changed sync.Cond
}

func (c *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		for len(c.open) > 0 && !c.closed {
			c.changed.Wait()
		}
		return nil, err
	}
	if call, ok := message.(*jsonrpc.Request); ok && call.IsCall() {
		c.open[call.ID] = struct{}{}
	}
	return message, nil
}

func (c *answering) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := c.Connection.Write(ctx, message); err != nil {
		return errors.Join(errClientLeft, err)
	}
	if answer, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.open, answer.ID)
		c.mu.Unlock()
		c.changed.Broadcast()
	}
	return nil
}

func (c *answering) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.changed.Broadcast()
	return c.Connection.Close()
}
