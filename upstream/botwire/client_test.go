package botwire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

const timeout = 10 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(k string) journal.ID { return journal.ID{Namespace: "ns", Key: k} }

func clientOf(t testing.TB, dial func(context.Context) (net.Conn, error)) *botwire.Client {
	c := botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: "upstream.test"}, Timeout: timeout, Concurrency: 1, UserAgent: "test", Dial: dial,
	})
	t.Cleanup(c.Close)
	return c
}

func answering(t testing.TB, response string) *botwire.Client {
	return clientOf(t, func(ctx context.Context) (net.Conn, error) { return scripted(ctx, response) })
}

// scripted answers the requests of a connection with the given bytes, unchanged.
func scripted(ctx context.Context, response string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }() // pipes close without an error
		if r, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(far, response)
		}
	}()
	return near, ctx.Err()
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
			if diff := cmp.Diff(row.want, got.Observation()); diff != "" || (err != nil) != row.fails {
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

// An entry with an absurd time is no answer of BotWire's: as a copy, it would be newer than all that comes later.
func TestAnAbsurdTimeIsNoAnswer(t *testing.T) {
	for _, times := range []string{
		`"created_at":1,"updated_at":1e300`, `"created_at":1,"updated_at":4294967296`, `"created_at":1,"updated_at":-1`,
		`"created_at":1e300,"updated_at":1`, `"created_at":-1,"updated_at":1`,
	} {
		c := answering(t, ok(`{"namespace":"ns","key":"k","value":"v",`+times+`}`))
		if v, err := c.Get(t.Context(), journal.ID{Namespace: "ns", Key: "k"}); err == nil {
			t.Errorf("%s: it is %+v", times, v)
		}
	}
}

// contract 9, 16: a row that cannot be BotWire's costs the list only that row; the list then says nothing of
// the entry that the row may stand for. The log says so once.
func TestOddRowsAreLeftOut(t *testing.T) {
	const good = `{"key":"k","bytes":1,"updated_at":2.5}`
	for odd, complete := range map[string]bool{
		`{"key":"a\u0000","bytes":1,"updated_at":2.5}`:                            true,
		`{"key":"a/b","bytes":1,"updated_at":2.5}`:                                true,
		`{"key":"","bytes":1,"updated_at":2.5}`:                                   true,
		`{"key":"` + strings.Repeat("a", 129) + `","bytes":"1","updated_at":2.5}`: true,
		`{"key":"a","bytes":4294967296,"updated_at":2.5}`:                         false,
		`{"key":"a","bytes":1e30,"updated_at":2.5}`:                               false,
		`{"key":"a","bytes":-1,"updated_at":2.5}`:                                 false,
		`{"key":"a","bytes":1.5,"updated_at":2.5}`:                                false,
		`{"key":"a","bytes":"1","updated_at":2.5}`:                                false,
		`{"key":"a","bytes":1,"updated_at":-1}`:                                   false,
		`{"key":"a","bytes":1,"updated_at":4294967296}`:                           false,
		`{"key":"a","bytes":1,"updated_at":1e300}`:                                false,
		`{"key":"a","bytes":1,"updated_at":1e999}`:                                false,
		`{"key":"a","bytes":1,"updated_at":"2026-01-01"}`:                         false,
		`{"key":"a","bytes":1}`:                                                   false,
		`{"key":"a","updated_at":1}`:                                              false,
		`{"key":1}`:                                                               false,
		`{}`:                                                                      false,
		`null`:                                                                    false,
		`"a"`:                                                                     false,
	} {
		var log strings.Builder
		c := botwire.NewClient(botwire.Options{
			URL: &url.URL{Scheme: "http", Host: "upstream.test"}, Timeout: timeout, Concurrency: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Dial: func(ctx context.Context) (net.Conn, error) {
				return scripted(ctx, ok(`{"namespace":"ns","count":2,"keys":[`+odd+`,`+good+`]}`))
			},
		})
		for range 2 {
			rows, whole, err := c.List(t.Context(), "ns")
			want := []journal.Row{{Key: "k", ListBytes: 1, UpdatedAt: 2.5}}
			if diff := cmp.Diff(want, rows); diff != "" || whole != complete || err != nil {
				t.Errorf("%s: complete %v, %v, and (-want +got):\n%s", odd, whole, err, diff)
			}
		}
		if strings.Count(log.String(), "left out") != 1 || !strings.Contains(log.String(), "namespace=ns rows=1") {
			t.Errorf("%s: the log is %s", odd, log.String())
		}
		c.Close()
	}
}

// The reason is for people: "EOF" alone says nothing.
func TestReasonOfAClosedConnection(t *testing.T) {
	for _, response := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"} {
		synctest.Test(t, func(t *testing.T) {
			err := put(t.Context(), answering(t, response), "v")
			if got := failureOf(err); !strings.Contains(got.Reason, "upstream closed the connection") {
				t.Errorf("after %q the reason is %q", response, got.Reason)
			}
		})
	}
}

// TestReasonOfAValidationError: the list that BotWire's framework gives instead of a sentence becomes
// text, without the parts of the request that it quotes.
func TestReasonOfAValidationError(t *testing.T) {
	item := `{"type":"string_type","loc":["body","value",0],"msg":"Input should be a valid string","input":"secret-value","ctx":{"x":"secret-value"}}`
	const others = "HTTP 422: an answer that is not BotWire's"
	for name, row := range map[string]struct{ body, want string }{
		"one": {`{"detail":[` + item + `]}`, "HTTP 422: string_type at body.value.0: Input should be a valid string"},
		"several": {
			`{"detail":[` + item + `,{"type":"missing","loc":["body"]},{"msg":"no"}]}`,
			"HTTP 422: string_type at body.value.0: Input should be a valid string; missing at body; no",
		},
		"a sentence":        {`{"detail":"no"}`, "HTTP 422: no"},
		"no list of faults": {`{"detail":["secret-value",1]}`, others},
		"an empty list":     {`{"detail":[]}`, others},
		"nothing in it":     {`{"detail":[{"input":"secret-value"}]}`, others},
		"an object":         {`{"detail":{"input":"secret-value"}}`, others},
	} {
		t.Run(name, func(t *testing.T) {
			response := "HTTP/1.1 422 Unprocessable Entity\r\nConnection: close\r\n\r\n" + row.body
			out := failureOf(put(t.Context(), answering(t, response), "secret-value"))
			verdict := upstream.Permanent
			if row.want == others {
				verdict = upstream.Transient
			}
			if out.Verdict != verdict || out.Status != 422 || out.Reason != row.want {
				t.Errorf("%v: %q, want %v: %q", out.Verdict, out.Reason, verdict, row.want)
			}
		})
	}
	long := `{"detail":[` + strings.TrimSuffix(strings.Repeat(strings.ReplaceAll(item, "valid", strings.Repeat("valid", 100))+",", 1000), ",") + `]}`
	out := failureOf(put(t.Context(), answering(t, "HTTP/1.1 422 No\r\nConnection: close\r\n\r\n"+long), ""))
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
	f.Fuzz(func(t *testing.T, response string, puts bool) {
		c := answering(t, response)
		word, err := "deleted", error(nil)
		if puts {
			word, err = "stored", put(t.Context(), c, "v")
		} else {
			err = remove(t.Context(), c)
		}
		if err == nil && !mentions(response, word, "Key not found: ns/k") {
			t.Errorf("%q passes for a confirmation", response)
		}
		wantFailure(t, err)
		_, err = c.Get(t.Context(), key("k"))
		wantFailure(t, err)
		rows, _, err := c.List(t.Context(), "ns")
		wantFailure(t, err)
		if err != nil && rows != nil {
			t.Error("rows with an error")
		}
	})
}

// put writes an entry.
func put(ctx context.Context, c *botwire.Client, value string) error {
	_, err := c.Swap(ctx, upstream.Proposal{ID: key("k"), Op: journal.Put, Value: value})
	return err
}

// remove deletes the entry.
func remove(ctx context.Context, c *botwire.Client) error {
	_, err := c.Swap(ctx, upstream.Proposal{ID: key("k"), Op: journal.Delete})
	return err
}

// wantFailure checks that an error, if there is one, says what it means.
func wantFailure(t *testing.T, err error) {
	t.Helper()
	var failed *upstream.Error
	switch {
	case err == nil:
	case !errors.As(err, &failed):
		t.Errorf("an error of type %T", err)
	case failed.Verdict == upstream.Confirmed, failed.RetryAfter < 0, failed.RetryAfter > 24*time.Hour:
		t.Errorf("%v, and a wait of %v", failed.Verdict, failed.RetryAfter)
	}
}

// failureOf returns the engine's error; its verdict is Confirmed if there is none.
func failureOf(err error) (failed upstream.Error) {
	if e := new(upstream.Error); errors.As(err, &e) {
		failed = *e
	}
	return failed
}

// mentions reports whether the response can contain a confirmation: only an encoding of JSON or of HTTP
// could hide the words.
func mentions(response string, words ...string) bool {
	for _, word := range append(words, `\u`, "chunked", "gzip") {
		if strings.Contains(strings.ToLower(response), strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// A request that belongs to a trace carries its context.
func TestTraceContextIsSent(t *testing.T) {
	got := make(chan http.Header, 2)
	c := clientOf(t, func(ctx context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			if r, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
				got <- r.Header
			}
		}()
		return near, ctx.Err()
	})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	_, _ = c.Get(trace.With(t.Context(), trace.Parse(parent, "a=1")), key("k")) // there is no answer
	if h := <-got; h.Get("Traceparent") != parent || h.Get("Tracestate") != "a=1" {
		t.Errorf("sent: %v", h)
	}
}
