package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxLine bounds a client's message over stdio, in bytes. A value that is too long for an
	// entry is far below: the tool says what it accepts.
	maxLine = 16 << 20
)

// The codes of JSON-RPC for what is no request.
const (
	codeParse   = -32700
	codeInvalid = -32600
)

// stdio is the protocol over a reader and a writer, with one message in each line. It answers a line
// that is no message, and reads on. When the reader ends, it still answers every request that
// it has read.
type stdio struct {
	lines  chan line
	prints chan printed
	closed chan struct{}
	close  func()
	left   atomic.Bool // the client has closed one of the two

	mu       sync.Mutex // guards open
	open     map[jsonrpc.ID]struct{}
	answered chan struct{} // has a value after a request was answered
}

// line is one that was read, or why none was.
type line struct {
	text []byte
	err  error
}

// printed is a line to write, and where the outcome goes.
type printed struct {
	text []byte
	done chan<- error
}

var errTooLong = fmt.Errorf("the line is longer than %d MiB: expected one message of JSON-RPC 2.0 in a line", maxLine>>20)

func newStdio(in io.Reader, out io.Writer) *stdio {
	s := &stdio{
		lines: make(chan line), prints: make(chan printed), closed: make(chan struct{}),
		open: make(map[jsonrpc.ID]struct{}), answered: make(chan struct{}, 1),
	}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	go s.scan(bufio.NewReader(in))
	go s.print(out)
	return s
}

// Connect is that of [sdk.Transport].
func (s *stdio) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID is empty: there is one session.
func (s *stdio) SessionID() string { return "" }

// Close ends Read and Write. The goroutine that reads ends with its reader, and the one that writes
// with its writer: a client that takes nothing may keep it.
func (s *stdio) Close() error {
	s.close()
	return nil
}

// scan reads lines until the reader ends.
func (s *stdio) scan(in *bufio.Reader) {
	for {
		text, err := readLine(in)
		select {
		case s.lines <- line{text, err}:
		case <-s.closed:
			return
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// print writes lines, each whole.
func (s *stdio) print(out io.Writer) {
	for {
		select {
		case p := <-s.prints:
			_, err := out.Write(p.text)
			p.done <- err
		case <-s.closed:
			return
		}
	}
}

// readLine returns the next line, or errTooLong behind one that is too long.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	tooLong := false
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(text)+len(part) > maxLine; !tooLong {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) > 0:
			return text, nil // the last line lacks its end
		}
		return text, err
	}
}

// Read returns the next message.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, io.EOF
		case l := <-s.lines:
			if l.err != nil && !errors.Is(l.err, errTooLong) {
				s.left.Store(errors.Is(l.err, io.EOF))
				return nil, s.awaitAnswers(ctx, l.err)
			}
			message, err := s.take(l)
			if message != nil || err != nil {
				return message, err
			}
		}
	}
}

// take returns the message in a line, or nil if it has answered the line itself.
func (s *stdio) take(l line) (jsonrpc.Message, error) {
	text := bytes.TrimSpace(l.text)
	switch {
	case l.err != nil:
		return nil, s.refuse(codeInvalid, nil, l.err.Error())
	case len(text) == 0:
		return nil, nil
	case !json.Valid(text):
		return nil, s.refuse(codeParse, nil, "the line is not JSON: expected one message of JSON-RPC 2.0 in a line")
	}
	message, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, s.refuse(codeInvalid, text, "the line is no message: expected one of JSON-RPC 2.0, and no batch")
	}
	if call, ok := message.(*jsonrpc.Request); ok && call.IsCall() {
		s.mu.Lock()
		s.open[call.ID] = struct{}{}
		s.mu.Unlock()
	}
	return message, nil
}

// refuse answers a line that is no message, with its id if it has one.
func (s *stdio) refuse(code int, text []byte, why string) error {
	answer := struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Error   any    `json:"error"`
	}{Version: "2.0", Error: map[string]any{"code": code, "message": why}}
	var request struct {
		ID any `json:"id"`
	}
	if json.Unmarshal(text, &request) == nil {
		switch request.ID.(type) {
		case string, float64:
			answer.ID = request.ID
		}
	}
	encoded, err := encode(answer)
	if err != nil {
		return err
	}
	return s.writeLine(encoded)
}

func (s *stdio) writeLine(text []byte) error {
	done := make(chan error, 1)
	select {
	case s.prints <- printed{append(text, '\n'), done}:
	case <-s.closed:
		return io.ErrClosedPipe
	}
	select {
	case err := <-done:
		if err != nil {
			s.left.Store(true)
		}
		return err
	case <-s.closed:
		return io.ErrClosedPipe
	}
}

// Write writes one message.
func (s *stdio) Write(_ context.Context, message jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	err = s.writeLine(text)
	if answer, ok := message.(*jsonrpc.Response); ok {
		s.mu.Lock()
		delete(s.open, answer.ID)
		s.mu.Unlock()
		select {
		case s.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// awaitAnswers returns why there are no more messages, once all requests are answered.
func (s *stdio) awaitAnswers(ctx context.Context, why error) error {
	for {
		s.mu.Lock()
		left := len(s.open)
		s.mu.Unlock()
		if left == 0 {
			return why
		}
		select {
		case <-s.answered:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return io.EOF
		}
	}
}
