package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// daemonThatSays is a stand-in for a daemon: its metrics.
func daemonThatSays(t *testing.T, hits, misses *int) *server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "botwired_requests_total{op=\"get\",outcome=\"hit\"} %d\n", *hits)
		fmt.Fprintf(w, "botwired_requests_total{op=\"get\",outcome=\"miss\"} %d\n", *misses)
	}))
	t.Cleanup(s.Close)
	return &server{address: s.Listener.Addr().String()}
}

func TestReadsThatWentUpstreamAreNoticed(t *testing.T) {
	hits, misses := 10, 5 // the figure from before does not matter
	daemon := daemonThatSays(t, &hits, &misses)
	on, err := new(stage).readHere(t.Context(), daemon)
	if err != nil {
		t.Fatal(err)
	}
	hits += 1000
	if err := on.done(t.Context()); err != nil {
		t.Errorf("hits are refused: %v", err)
	}
	misses++
	if err := on.done(t.Context()); err == nil || !strings.Contains(err.Error(), "botwired asked upstream for 1 of the requests") {
		t.Errorf("a miss gives %v", err)
	}
}

// A contender without a server takes no part, and is not measured.
func TestWithoutRedisItsColumnsAreEmpty(t *testing.T) {
	s := &stage{options: &options{}}
	for _, w := range workloads() {
		prepare, ok := w.on[redis]
		if !ok {
			continue
		}
		if on, err := prepare(t.Context(), s); on != nil || err != nil {
			t.Errorf("%s: %v, %v", w.name, on, err)
		}
	}
}
