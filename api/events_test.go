package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/sse"
)

// streamed reads a stream of a content type. Each part comes fifteen seconds after the previous one.
func streamed(ctx context.Context, t *testing.T, visit func(api.Event) error, contentType string, parts ...string) (err error) {
	t.Helper()
	l := pipe.Listen()
	c := api.NewClient(api.Options{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
	}})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for _, part := range parts {
			if _, err := io.WriteString(w, part); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-time.After(15 * time.Second):
			case <-r.Context().Done():
				return
			}
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	opened := 0
	err = c.Events(ctx, api.Request{Path: api.Surface("events")}, func() { opened++ }, visit)
	if opened != 1 && contentType == sse.ContentType {
		t.Errorf("it opened %d times", opened)
	}
	if err := errors.Join(server.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	<-ended
	return err
}

// A client gets events until the daemon ends the stream, the visitor returns an error, or the caller
// cancels.
func TestEventsOfAStream(t *testing.T) {
	enough := errors.New("enough")
	for name, test := range map[string]struct {
		contentType string
		parts       []string
		ended       error
		said        string // in the error
		visited     []string
	}{
		"ended":     {sse.ContentType, []string{"event: pending\ndata: {}\n\n", ": alive\n\n", "data: 1\n\ndata: cut"}, api.ErrStreamEnded, "", []string{"pending {}", "message 1"}},
		"enough":    {sse.ContentType, []string{"data: enough\n\n", "data: 1\n\n"}, enough, "", []string{"message enough"}},
		"lives":     {sse.ContentType, strings.Split(strings.Repeat(": alive\n\n|", 10), "|"), api.ErrStreamEnded, "", nil},
		"silent":    {sse.ContentType, []string{": alive\n\n", "", "", "", ""}, api.ErrSilent, "", nil},
		"read late": {sse.ContentType, []string{"data: late\n\n", ": alive\n\n", "data: 1\n\n"}, api.ErrStreamEnded, "", []string{"message late", "message 1"}},
		"stranger":  {"text/html", []string{"data: 1\n\n"}, nil, "not one of botwired's", nil},
		"waits":     {sse.ContentType, strings.Split(strings.Repeat(": alive\n\n|", 100), "|"), context.DeadlineExceeded, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var visited []string
				err := streamed(ctx, t, func(e api.Event) error {
					visited = append(visited, e.Name+" "+string(e.Data))
					switch string(e.Data) {
					case "enough":
						return enough
					case "late": // its own reader waits, not the daemon
						time.Sleep(time.Minute)
					}
					return nil
				}, test.contentType, test.parts...)
				if err == nil || test.ended != nil && !errors.Is(err, test.ended) || !strings.Contains(err.Error(), test.said) {
					t.Errorf("it ends with %v", err)
				}
				if diff := cmp.Diff(test.visited, visited); diff != "" {
					t.Errorf("it visits (-want +got):\n%s", diff)
				}
			})
		})
	}
}
