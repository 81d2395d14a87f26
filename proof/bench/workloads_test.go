package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// daemonThatSays is a stand-in for a daemon: its metrics.
func daemonThatSays(t *testing.T, hits, misses *int) *server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "botwired_request_seconds_count{operation=\"get\",outcome=\"hit\"} %d\n", *hits)
		fmt.Fprintf(w, "botwired_request_seconds_count{operation=\"get\",outcome=\"miss\"} %d\n", *misses)
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
		for _, missing := range []contender{redis, nginx} {
			c := &cell{Contender: missing}
			if w.on[missing] == nil {
				continue
			}
			if err := measure(t.Context(), s, &w, c); err != nil || len(c.Rounds) > 0 {
				t.Errorf("%s: %v, %v", w.name, c.Rounds, err)
			}
		}
	}
}

func TestWorkloadsRunAtTheirNumbersOfConnections(t *testing.T) {
	all := []int{1, 8, 64, 1000}
	for _, test := range []struct {
		workload string
		on       contender
		at       []int
	}{
		{getHit, botwired, all},
		{getHit, nginx, all},
		{getHit, page, []int{64}},
		{getHit, upstream, []int{1, 64}},
		{putDistinct, echo, all},
		{putDistinct, nginx, nil},
		{"mixed 90/10", redis, []int{1, 64}},
	} {
		for _, w := range workloads() {
			if w.name != test.workload {
				continue
			}
			for _, connections := range all {
				if got, want := w.runs(test.on, connections), slices.Contains(test.at, connections); got != want {
					t.Errorf("%s on %s at %d: %v, want %v", w.name, test.on, connections, got, want)
				}
			}
		}
	}
}

// A dead page of nginx's would be a fast answer, too.
func TestAnswersOfNginxHaveToComeFromItsCache(t *testing.T) {
	for head, refused := range map[string]bool{"X-Cache: HIT\r\n": false, "X-Cache: MISS\r\n": true, "": true} {
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + head + "\r\n{}"
		length, err := nginxHit([]byte(answer))
		if length != len(answer) || (err != nil) != refused {
			t.Errorf("%q: %d, %v", answer, length, err)
		}
	}
	if length, err := nginxHit([]byte("HTTP/1.1 200 OK\r\n")); length != 0 || err != nil {
		t.Errorf("half a head: %d, %v", length, err)
	}
}
