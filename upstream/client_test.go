package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

func clientOf(t testing.TB, dial func(context.Context) (net.Conn, error)) *upstream.Client {
	c := upstream.NewClient(upstream.ClientOptions{
		URL: &url.URL{Scheme: "http", Host: "upstream.test"}, Timeout: timeout, Concurrency: 1, UserAgent: "test", Dial: dial,
	})
	t.Cleanup(c.Close)
	return c
}

func answering(t testing.TB, response string) *upstream.Client {
	return clientOf(t, func(ctx context.Context) (net.Conn, error) { return scripted(ctx, response) })
}

func ok(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

func TestGetBelievesOnlyBotWire(t *testing.T) {
	entry := `{"namespace":"ns","key":"k","value":"v","created_at":1.5,"updated_at":2.5}`
	want := &journal.Observation{Value: "v", ListBytes: 1, CreatedAt: 1.5, UpdatedAt: 2.5}
	for name, row := range map[string]struct {
		response string
		want     *journal.Observation
		fails    bool
	}{
		"entry":          {ok(entry), want, false},
		"absent":         {"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n" + `{"detail":"Key not found: ns/k"}`, nil, false},
		"another absent": {"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n" + `{"detail":"Key not found: ns/j"}`, nil, true},
		"404":            {"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n" + `<html>`, nil, true},
		"no value":       {ok(`{"namespace":"ns","key":"k","created_at":1.5,"updated_at":2.5}`), nil, true},
		"null value":     {ok(`{"namespace":"ns","key":"k","value":null,"created_at":1,"updated_at":2}`), nil, true},
		"another key":    {ok(`{"namespace":"ns","key":"j","value":"v","created_at":1,"updated_at":2}`), nil, true},
		"truncated":      {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + entry, nil, true},
		"html":           {ok("<html>"), nil, true},
		"nothing":        {"", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answering(t, row.response).Get(t.Context(), key("k"))
			if diff := cmp.Diff(row.want, got); diff != "" || (err != nil) != row.fails {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestListBelievesOnlyBotWire(t *testing.T) {
	for body, fails := range map[string]bool{
		`{"namespace":"ns","count":0,"keys":[]}`:                                       false,
		`{"namespace":"ns","count":1,"keys":[{"key":"k","bytes":1,"updated_at":2.5}]}`: false,
		`{"namespace":"ns","count":1,"keys":[]}`:                                       true,
		`{"namespace":"ns","count":3}`:                                                 true,
		`{"namespace":"ns","keys":[]}`:                                                 true,
		`{"namespace":"other","count":0,"keys":[]}`:                                    true,
		`[]`: true,
	} {
		_, complete, err := answering(t, ok(body)).List(t.Context(), "ns")
		if (err != nil) != fails || complete == fails {
			t.Errorf("%s: complete %v, %v", body, complete, err)
		}
	}
}

// TestUnsentAndUnanswered: a request that never had a connection, or was cut off
// while it was written, was not sent; one that was written may yet be carried out.
func TestUnsentAndUnanswered(t *testing.T) {
	for name, row := range map[string]struct {
		dial func(context.Context) (net.Conn, error)
		want upstream.Verdict
	}{
		"no connection": {func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, upstream.Unsent},
		"cut off": {func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = far.Read(make([]byte, 10)); _ = far.Close() }()
			return near, nil
		}, upstream.Unsent},
		"written": {func(ctx context.Context) (net.Conn, error) { return scripted(ctx, "") }, upstream.Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := journal.Write{ID: key("k"), Op: journal.Put, Value: string(make([]byte, 50000))}
				if got := clientOf(t, row.dial).Send(t.Context(), w); got.Verdict != row.want {
					t.Errorf("got %v (%s), want %v", got.Verdict, got.Reason, row.want)
				}
			})
		})
	}
}

func TestKeepAliveConnectionClosedByUpstream(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 20 {
			r.put(key(fmt.Sprint(i)), "v")
			time.Sleep(time.Second + time.Duration(i%2)*(5*time.Second))
			r.wantHeld(key(fmt.Sprint(i)), "v")
		}
		if n := len(r.requests(anything)); n != 20 {
			t.Errorf("%d requests for 20 writes", n)
		}
	})
}

// TestReasonOfAValidationError: the list that BotWire's framework gives instead of a
// sentence is told without what it quotes of the request.
func TestReasonOfAValidationError(t *testing.T) {
	item := `{"type":"string_type","loc":["body","value",0],"msg":"Input should be a valid string","input":"secret-value","ctx":{"x":"secret-value"}}`
	for name, row := range map[string]struct{ body, want string }{
		"one": {`{"detail":[` + item + `]}`, "HTTP 422: string_type at body.value.0: Input should be a valid string"},
		"several": {
			`{"detail":[` + item + `,{"type":"missing","loc":["body"]},{"msg":"no"}]}`,
			"HTTP 422: string_type at body.value.0: Input should be a valid string; missing at body; no",
		},
		"a sentence":        {`{"detail":"no"}`, "HTTP 422: no"},
		"no list of faults": {`{"detail":["secret-value",1]}`, "HTTP 422: an answer that is not BotWire's"},
		"an empty list":     {`{"detail":[]}`, "HTTP 422: an answer that is not BotWire's"},
		"nothing in it":     {`{"detail":[{"input":"secret-value"}]}`, "HTTP 422: an answer that is not BotWire's"},
		"an object":         {`{"detail":{"input":"secret-value"}}`, "HTTP 422: an answer that is not BotWire's"},
	} {
		t.Run(name, func(t *testing.T) {
			response := "HTTP/1.1 422 Unprocessable Entity\r\nConnection: close\r\n\r\n" + row.body
			out := answering(t, response).Send(t.Context(), journal.Write{ID: key("k"), Op: journal.Put, Value: "secret-value"})
			if out.Verdict != upstream.Refused || out.Reason != row.want {
				t.Errorf("%v: %q, want %q", out.Verdict, out.Reason, row.want)
			}
		})
	}
	long := `{"detail":[` + strings.TrimSuffix(strings.Repeat(strings.ReplaceAll(item, "valid", strings.Repeat("valid", 100))+",", 1000), ",") + `]}`
	out := answering(t, "HTTP/1.1 422 No\r\nConnection: close\r\n\r\n"+long).Send(t.Context(), journal.Write{ID: key("k"), Op: journal.Put})
	if n := len(out.Reason); n < 200 || n > 220 {
		t.Errorf("a reason of %d bytes", n)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(ok(`{"namespace":"ns","key":"k","stored":true}`), true)
	f.Add(ok(`{"namespace":"ns","key":"k","deleted":true}`), false)
	f.Add("HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"+`{"detail":"Key not found: ns/k"}`, false)
	f.Add(ok(`{"namespace":"ns","key":"k","value":"v","created_at":1,"updated_at":2}`), true)
	f.Add(ok(`{"namespace":"ns","count":1,"keys":[{"key":"k","bytes":1,"updated_at":2.5}]}`), true)
	f.Add("HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\n\r\n", true)
	f.Add("HTTP/1.1 429 No\r\nRetry-After: -99999999999999999999\r\n\r\n", true)
	f.Fuzz(func(t *testing.T, response string, put bool) {
		c := answering(t, response)
		w := journal.Write{ID: key("k"), Op: journal.Delete}
		word := []byte("deleted")
		if put {
			w.Op, word = journal.Put, []byte("stored")
		}
		out := c.Send(t.Context(), w)
		if out.RetryAfter < 0 || out.RetryAfter > time.Hour {
			t.Errorf("a wait of %v", out.RetryAfter)
		}
		if out.Verdict == upstream.Confirmed && !mentions(response, string(word), "Key not found: ns/k") {
			t.Errorf("%q passes for a confirmation", response)
		}
		if _, err := c.Get(t.Context(), w.ID); err != nil {
			var failed *upstream.RequestError
			if !errors.As(err, &failed) {
				t.Errorf("an error of type %T", err)
			}
		}
		if rows, _, err := c.List(t.Context(), "ns"); err != nil && rows != nil {
			t.Error("rows with an error")
		}
	})
}

// mentions reports whether a confirmation can be in the response at all: only an
// encoding of JSON or of HTTP could hide the words.
func mentions(response string, words ...string) bool {
	for _, word := range append(words, `\u`, "chunked", "gzip") {
		if strings.Contains(strings.ToLower(response), strings.ToLower(word)) {
			return true
		}
	}
	return false
}
