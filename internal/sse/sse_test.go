package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/sse"
)

func readAll(t *testing.T, text string) (events []sse.Event, r *sse.Reader, err error) {
	t.Helper()
	r = sse.NewReader(iotest.OneByteReader(strings.NewReader(text)), 64)
	for {
		e, err := r.Next()
		if err != nil {
			return events, r, err
		}
		events = append(events, e)
	}
}

func TestRoundTrip(t *testing.T) {
	var text []byte
	text = sse.AppendRetry(text, time.Second)
	text = sse.AppendID(text, "p-0")
	text = sse.AppendEvent(text, "p-1", "pending", []byte(`{"key":"a"}`))
	text = sse.AppendComment(text, "botwired")
	text = sse.AppendEvent(text, "", "request", []byte("two\nlines"))
	text = sse.AppendID(text, "p-7")
	want := "retry: 1000\n\nid: p-0\n\nid: p-1\nevent: pending\ndata: {\"key\":\"a\"}\n\n: botwired\n\nevent: request\ndata: two\ndata: lines\n\nid: p-7\n\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	events, r, err := readAll(t, string(text))
	wantEvents := []sse.Event{{ID: "p-1", Name: "pending", Data: []byte(`{"key":"a"}`)}, {ID: "p-1", Name: "request", Data: []byte("two\nlines")}}
	if diff := cmp.Diff(wantEvents, events); diff != "" || !errors.Is(err, io.EOF) || r.LastID != "p-7" {
		t.Errorf("it ends with %v after %q, and has read (-want +got):\n%s", err, r.LastID, diff)
	}
}

// The examples and rules come from the HTML standard.
func TestReader(t *testing.T) {
	for text, want := range map[string][]sse.Event{
		"data: a\n\n":                      {{Name: "message", Data: []byte("a")}},
		"data:a\r\n\r\ndata:b\r\rdata:c":   {{Name: "message", Data: []byte("a")}, {Name: "message", Data: []byte("b")}},
		"data\n\ndata\ndata\n\ndata:":      {{Name: "message", Data: []byte{}}, {Name: "message", Data: []byte("\n")}},
		"event: x\n\ndata:  a\n\n":         {{Name: "message", Data: []byte(" a")}},
		"id: 1\ndata: a\nid\n\n":           {{Name: "message", Data: []byte("a")}},
		"id: 1\x00\nother: b\ndata: a\n\n": {{Name: "message", Data: []byte("a")}},
		"event: x\ndata: cut short\n":      nil,
	} {
		events, _, err := readAll(t, text)
		if diff := cmp.Diff(want, events); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%q ends with %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestAStreamIsBounded(t *testing.T) {
	for _, text := range []string{"data: " + strings.Repeat("a", 64) + "\n", strings.Repeat("data: a\n", 10)} {
		if _, _, err := readAll(t, text); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := readAll(t, strings.Repeat("data: a\n\n: alive\n\n", 20)); !errors.Is(err, io.EOF) {
		t.Errorf("many short events: %v", err)
	}
}

func TestHeard(t *testing.T) {
	heard := 0
	r := sse.NewReader(strings.NewReader(": alive\n\n: alive\n\n"), 64)
	r.Heard = func() { heard++ }
	if _, err := r.Next(); !errors.Is(err, io.EOF) || heard != 4 {
		t.Errorf("%d lines heard, and %v", heard, err)
	}
}
