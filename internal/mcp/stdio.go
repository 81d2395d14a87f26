package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine limits a client's line, in bytes. It is more than the tools take, so that a value that is too long has
// an answer that says so.
const maxLine = 16 << 20

// ServeStdio serves one client until the client leaves or ctx ends. It writes only the protocol's
// messages to out, one per line, and closes neither in nor out. When in ends, it first answers the
// requests received before. When ctx ends, it returns at once, even if the client no longer reads. A line that is
// no message gets an error, and ends nothing.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- s.newServer().Run(ctx, &stdio{in, out}) }()
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

// stdio is a transport of messages in lines. The library's ends at the first line that is no message, changes
// numbers in ids, and drops open requests when its input ends.
type stdio struct {
	in  io.Reader
	out io.Writer
}

func (t *stdio) Connect(context.Context) (sdk.Connection, error) {
	c := &lines{out: t.out, read: make(chan line), closed: make(chan struct{}), open: make(map[string]*call)}
	c.answered.L = &c.mu
	go c.readFrom(t.in)
	return c, nil
}

var errClientLeft = errors.New("the client takes no more answers")

// lines is a connection whose messages are lines. It reports the end of the input only when every call is
// answered, or the client accepts no more answers.
type lines struct {
	out    io.Writer
	read   chan line
	queue  []jsonrpc.Message // what is read and not yet returned; only Read uses it
	ended  error             // there is nothing more to read; only Read uses it
	closed chan struct{}

	writing sync.Mutex // guards out

	mu       sync.Mutex // guards the fields below
	calls    int        // counts them, for their names
	open     map[string]*call
	isClosed bool
	answered sync.Cond
}

type line struct {
	text  []byte
	fault *jsonrpc.Error // the line is too long
	err   error          // there are no more lines
}

// call is a request of the client's that has no answer yet. The library knows it by a name of this connection.
type call struct {
	id json.RawMessage
	of *batch
}

// batch is what came in one line, mostly a single message. The answers to it are written in one line.
type batch struct {
	isBatch bool
	left    int // how many calls have no answer
	answers [][]byte
}

func (b *batch) text() []byte {
	if !b.isBatch {
		return bytes.Join(b.answers, nil)
	}
	return fmt.Appendf(nil, "[%s]", bytes.Join(b.answers, []byte(",")))
}

func (c *lines) SessionID() string { return "" }

// readFrom reads lines until the input ends or the connection is closed. It leaves a line that is too long out.
func (c *lines) readFrom(in io.Reader) {
	input := bufio.NewReaderSize(in, 64<<10)
	for next := (line{}); next.err == nil; {
		next = line{}
		part, err := input.ReadSlice('\n')
		for ; errors.Is(err, bufio.ErrBufferFull); part, err = input.ReadSlice('\n') {
			if len(next.text) <= maxLine {
				next.text = append(next.text, part...)
			}
		}
		if next.text, next.err = append(next.text, part...), err; len(next.text) > maxLine {
			next.text, next.fault = nil, faultf(jsonrpc.CodeInvalidRequest, "invalid request: the line has more than %d bytes", maxLine)
		}
		select {
		case c.read <- next:
		case <-c.closed:
			return
		}
	}
}

func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(c.queue) == 0 {
		if c.ended != nil {
			c.awaitAnswers()
			return nil, c.ended
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case next := <-c.read:
			if err := c.take(next); err != nil {
				return nil, err
			}
			c.ended = next.err
		}
	}
	next := c.queue[0]
	c.queue = c.queue[1:]
	return next, nil
}

func (c *lines) awaitAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.open) > 0 && !c.isClosed {
		c.answered.Wait()
	}
}

// take queues the messages of a line, and answers those that are none.
func (c *lines) take(l line) error {
	messages, isBatch := parse(l.text)
	if l.fault != nil {
		messages = []message{{fault: l.fault}}
	}
	of := &batch{isBatch: isBatch}
	for i := range messages {
		m := &messages[i]
		switch {
		case m.fault != nil:
			of.answers = append(of.answers, errorAnswer(m.id, m.fault))
		case m.method == "": // an answer: if it is wrong, nobody waits for it
			raw, _ := json.Marshal(m.fields)
			if answer, err := jsonrpc.DecodeMessage(raw); err == nil {
				c.queue = append(c.queue, answer)
			}
		default:
			c.queue = append(c.queue, c.request(m, of))
		}
	}
	if of.left > 0 || len(of.answers) == 0 {
		return nil
	}
	return c.write(of.text())
}

// request returns a request for the library, which gets the connection's own name for it.
func (c *lines) request(m *message, of *batch) *jsonrpc.Request {
	r := &jsonrpc.Request{Method: m.method, Params: m.fields["params"]}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.isCall() {
		c.calls++
		own := strconv.Itoa(c.calls)
		c.open[own] = &call{m.id, of}
		of.left++
		r.ID, _ = jsonrpc.MakeID(own) // a text is one
	}
	if m.method == "notifications/cancelled" {
		r.Params = c.cancelled(r.Params)
	}
	return r
}

// cancelled returns the params of a cancellation with the connection's name for the call; mu must be held.
func (c *lines) cancelled(params json.RawMessage) json.RawMessage {
	var wanted struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &wanted) == nil {
		for own, call := range c.open {
			if bytes.Equal(call.id, wanted.RequestID) {
				return fmt.Appendf(nil, `{"requestId":%q}`, own)
			}
		}
	}
	return json.RawMessage(`{"requestId":""}`) // it has its answer, or never was
}

func (c *lines) Write(_ context.Context, sent jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(sent)
	if err != nil {
		return err
	}
	answer, isAnswer := sent.(*jsonrpc.Response)
	if !isAnswer {
		c.mu.Lock()
		for own, call := range c.open {
			if named := subscribed(call.id, own, text); !bytes.Equal(named, text) {
				text = named
				break // now it may name another call as the server does
			}
		}
		c.mu.Unlock()
		return c.write(text)
	}
	own, _ := answer.ID.Raw().(string)
	c.mu.Lock()
	to := c.open[own]
	if to == nil {
		c.mu.Unlock()
		return nil
	}
	to.of.answers = append(to.of.answers, answerTo(to.id, own, text))
	to.of.left--
	last := to.of.left == 0
	c.mu.Unlock()
	if last {
		err = c.write(to.of.text())
	}
	c.mu.Lock()
	delete(c.open, own)
	c.mu.Unlock()
	c.answered.Broadcast()
	return err
}

func (c *lines) write(text []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.out.Write(append(text, '\n')); err != nil {
		return errors.Join(errClientLeft, err)
	}
	return nil
}

func (c *lines) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isClosed {
		c.isClosed = true
		close(c.closed)
		c.answered.Broadcast()
	}
	return nil
}
