package mcp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/mcp"
	"github.com/botwired/botwired/internal/wire"
)

// While upstream is away, each tool succeeds and says so once, before all else and in the same words; before and after, none
// says anything.
func TestToolsTellTheStateOfTheMemory(t *testing.T) {
	d := newDaemon(t)
	c := d.overHTTP(d.serve())
	tools := []struct {
		name string
		with args
	}{
		{"memory_write", args{"namespace": "n", "key": "k", "value": "v"}},
		{"memory_append", args{"namespace": "n", "key": "log", "value": "v"}},
		{"memory_append", args{"namespace": "n", "key": "log", "value": "w"}},
		{"memory_read", args{"namespace": "n", "key": "k"}},
		{"memory_list", args{"namespace": "n"}},
		{"memory_recent", args{"namespace": "n"}},
		{"memory_search", args{"namespace": "n", "query": "v"}},
		{"memory_history", args{"namespace": "n", "key": "k"}},
		{"memory_undo", args{"namespace": "n", "key": "log"}},
		{"memory_delete", args{"namespace": "n", "key": "k"}},
	}
	const told = `{"memory_state":"Upstream has failed to answer since 2026-01-02 14:05 UTC: answers may be botwired's copies, and writes are kept here, durably, until it has them.",`
	all := func(wanted int) {
		t.Helper()
		for _, tool := range tools {
			result, text := c.ask(tool.name, tool.with)
			if result.IsError || strings.Count(text, told) != wanted || strings.Count(text, "memory_state") != wanted || wanted == 1 && !strings.HasPrefix(text, told) {
				t.Errorf("%s: %s", tool.name, text)
			}
		}
	}
	all(0)
	d.flush()
	d.upstream.down.Store(true)
	d.upstreamIs(api.UpstreamState{State: "down", Since: time.Date(2026, 1, 2, 14, 5, 0, 0, time.UTC), Reason: "connection refused"})
	all(1)
	d.upstream.down.Store(false)
	d.upstreamIs(api.UpstreamState{State: "up"})
	all(0)
}

// A call keeps a state that any of its answers has carried.
func TestACallKeepsTheState(t *testing.T) {
	d := newDaemon(t)
	answers := 0
	c := d.overHTTP(d.serve(func(o *mcp.Options) {
		next := o.Daemon.Transport
		o.Daemon.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if answers++; answers == 1 && err == nil {
				answer.Header.Set(wire.StateHeader, "Upstream is away.")
			}
			return answer, err
		})
	}))
	c.ask("memory_write", args{"namespace": "n", "key": "k", "value": "v"})
	c.ask("memory_write", args{"namespace": "n", "key": "k", "value": "w"})
	answers = 0
	if result, text := c.ask("memory_undo", args{"namespace": "n", "key": "k"}); result.IsError || answers < 2 || !strings.HasPrefix(text, `{"memory_state":"Upstream is away.",`) {
		t.Errorf("after %d answers: %s", answers, text)
	}
}
