package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/mcp"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// answersOf serves a client that sends a text and leaves. It returns the answers by id.
func answersOf(t *testing.T, s *mcp.Server, text string) map[string]string {
	t.Helper()
	var out bytes.Buffer
	noError(t, s.ServeStdio(t.Context(), strings.NewReader(hello+text), &out))
	answers := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var answer struct {
			Version string `json:"jsonrpc"`
			ID      any
		}
		if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Version != "2.0" {
			t.Errorf("it writes %q: %v", line, err)
		}
		answers[fmt.Sprint(answer.ID)] += line
	}
	return answers
}

// A client that leaves gets all its answers, even if its last line has no line end.
func TestStdioAnswersBeforeItEnds(t *testing.T) {
	d := newDaemon(t)
	text := ""
	for id := range 30 {
		text += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"memory_append","arguments":{"namespace":"n","key":"k","value":"%d"}}}`+"\n", id, id)
	}
	answers := answersOf(t, d.serve(), strings.TrimSuffix(text, "\n"))
	for id := range 30 {
		if answer := answers[fmt.Sprint(id)]; !strings.Contains(answer, `"state":"pending"`) {
			t.Errorf("answer %d is %q", id, answer)
		}
	}
}

// A call that the client has canceled does not delay the end.
func TestStdioForgetsCanceledCalls(t *testing.T) {
	asked := make(chan struct{})
	s := mcp.New(mcp.Options{Daemon: api.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		close(asked)
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}})
	in, client := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(context.Background(), in, io.Discard) }()
	_, err := io.WriteString(client, hello+`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_read","arguments":{"namespace":"n","key":"k"}}}`+"\n")
	noError(t, err)
	<-asked
	_, err = io.WriteString(client, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
	noError(t, err)
	noError(t, client.Close())
	noError(t, <-ended)
}

// A client that no longer reads has left.
func TestStdioEndsWithItsReader(t *testing.T) {
	s := newDaemon(t).serve()
	in, client := io.Pipe()
	reader, out := io.Pipe()
	noError(t, reader.Close())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(context.Background(), in, out) }()
	_, err := io.WriteString(client, hello)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	noError(t, client.Close())
	noError(t, <-ended)
}

// A signal ends the server even if the client does not read an answer.
func TestStdioEndsThoughNobodyReads(t *testing.T) {
	s := newDaemon(t).serve()
	in, client := io.Pipe()
	reader, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(ctx, in, out) }()
	_, err := io.WriteString(client, hello)
	noError(t, err)
	_, err = reader.Read(make([]byte, 1)) // the answer is being written
	noError(t, err)
	cancel()
	select {
	case err = <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
	noError(t, errors.Join(client.Close(), reader.Close()))
}
