package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each goal is missed by a daemon in which the one figure grows that it is about.
func TestGrowthGoals(t *testing.T) {
	even := func() *growthReport {
		r := &growthReport{}
		for _, size := range []int{1000, 100_000, 1_000_000, 10_000_000} {
			for _, state := range []string{statePending, stateSettled} {
				p := &point{
					Entries: size, Namespaces: 1000, State: state, RSS: 100 << 20, Ready: 0.1, GetRatio: 1, PutRatio: 1.7,
					Disk: int64(size) * 500, First: figures{P50: 50},
				}
				if state == stateSettled {
					p.Drain = drained{size, float64(size) / 3000}
				} else {
					p.RSS += int64(size) * 600
				}
				r.Points = append(r.Points, p)
			}
		}
		return r
	}
	missed := func(r *growthReport) (all []string) {
		for _, g := range growthGoals(r) {
			if !g.held() {
				what, _, _ := strings.Cut(g.What, ":")
				all = append(all, what)
			}
		}
		return all
	}
	if got := missed(even()); len(got) > 0 {
		t.Errorf("missed without growth: %q", got)
	}
	for want, grow := range map[string]func(pending, settled *point){
		"GET p50, pending":            func(p, _ *point) { p.GetRatio = 1.4 },
		"PUT p50, pending":            func(p, _ *point) { p.PutRatio = 2.3 },
		"GET p50, settled":            func(_, s *point) { s.GetRatio = 1.4 },
		"PUT p50, settled":            func(_, s *point) { s.PutRatio = 2.3 },
		"first GET, settled":          func(_, s *point) { s.First.P50 = 80 },
		"ready after a kill, settled": func(_, s *point) { s.Ready = 0.16 },
		"ready after a kill, pending": func(p, _ *point) { p.Ready = 3.1 },
		"resident, settled":           func(_, s *point) { s.RSS = 300 << 20 },
		"resident, pending":           func(p, _ *point) { p.RSS += int64(p.Entries) * 300 },
		"on disk":                     func(_, s *point) { s.Disk += int64(s.Entries) * 400 },
		"drain":                       func(_, s *point) { s.Drain.Seconds *= 2.1 },
	} {
		r := even()
		n := len(r.Points)
		grow(r.Points[n-2], r.Points[n-1])
		if diff := cmp.Diff([]string{want}, missed(r)); diff != "" {
			t.Error(diff)
		}
	}
	for _, g := range growthGoals(&growthReport{Points: even().Points[:2]}) {
		if g.Known && strings.Contains(g.What, "grow") && g.Unit == "×" {
			t.Errorf("%s is known of a single size", g.What)
		}
		if g.Known && strings.Contains(g.What, "1,000,000") {
			t.Errorf("%s is known of a thousand entries", g.What)
		}
	}
}

// A keeper answers for a filling as for what it was sent, and a write of an entry of a filling wins.
func TestKeeperHoldsFillings(t *testing.T) {
	k := newKeeper()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, w := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		k.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	want := func(method, path, body string, status int, parts ...string) {
		t.Helper()
		got, text := ask(method, path, body)
		if got != status {
			t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s %s: %s lacks %s", method, path, text, part)
			}
		}
	}
	want("PUT", "/memory/agent-3/item-3", `{"value":"sent"}`, http.StatusOK, `"stored":true`)
	want("GET", "/memory/agent-3/item-13", "", http.StatusNotFound)
	want("POST", filling{10, 30, 10}.path(), "", http.StatusOK)
	want("GET", "/memory/agent-3/item-13", "", http.StatusOK, string(k.values.append(nil, 0, 13)))
	want("GET", "/memory/agent-3/item-33", "", http.StatusNotFound)
	want("GET", "/memory/agent-4/item-13", "", http.StatusNotFound)
	want("GET", "/memory/agent-3", "", http.StatusOK, `"count":3`, `"item-3"`, `"item-13"`, `"item-23"`)
	want("PUT", "/memory/agent-3/item-13", `{"value":"sent"}`, http.StatusOK)
	want("GET", "/memory/agent-3/item-13", "", http.StatusOK, `"value":"sent"`)
	want("GET", "/memory/agent-3", "", http.StatusOK, `"count":3`)
	want("POST", filling{30, 40, 10}.path(), "", http.StatusOK)
	want("GET", "/memory/agent-3", "", http.StatusOK, `"count":4`)
	want("POST", keeperAway, "", http.StatusOK)
	want("GET", "/memory/agent-3", "", http.StatusServiceUnavailable)
	want("POST", keeperBack, "", http.StatusOK)
	want("GET", "/memory/agent-3", "", http.StatusOK)
}
