package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// crowdFigures are those of one request. Times are in microseconds.
type crowdFigures struct {
	Who   string `json:"who"` // asks for it
	Path  string `json:"path"`
	Bytes int    `json:"bytes"` // of the last answer
	times
}

// crowdRequest is what somebody asks of the daemon.
type crowdRequest struct {
	who, path string
	// check fails if the answer is wrong. Between least and most writes are pending.
	check func(body []byte, least, most int) error
}

// The ones who ask.
const (
	thePage = "page"
	others  = "others"
)

// crowdRequests are the requests that the page makes (proxy/dashboard/assets), with its parameters,
// and what a script or Prometheus asks for.
func crowdRequests(s *crowdSettings) []crowdRequest {
	one := crowdNamespace(s.Namespaces / 2)
	const rows = 100 // of the page's lists
	names := func(from, n int) (all []string) {
		for i := range n {
			all = append(all, crowdNamespace(from+i))
		}
		return all
	}
	return []crowdRequest{
		{thePage, "/_botwired/", contains("<title>botwired</title>")},
		{thePage, pageStatus, statusOf(s.Namespaces, rows)},
		{thePage, pageHistory, contains(`"points":`)},
		{thePage, pagePending, longestWaiting(min(200, s.pending()))},
		{thePage, "/_botwired/namespaces?limit=100", namespacesAre(names(0, rows), s.Each)},
		{thePage, "/_botwired/namespaces?limit=100&after=" + crowdNamespace(99), namespacesAre(names(rows, rows), s.Each)},
		{thePage, "/_botwired/namespaces?limit=100&match=" + one, namespacesAre([]string{one}, s.Each)},
		{thePage, "/_botwired/entries?limit=100&namespace=" + one, entriesOf(s.Each)},
		{thePage, "/_botwired/entries?limit=100&prefix=item-0&namespace=" + one, entriesOf(1)},
		{thePage, "/memory/" + one + "/item-0", contains(`"key":"item-0"`)},
		{thePage, "/_botwired/dead-letters?limit=100", contains(`"dead_letters":[]`)},
		{others, "/_botwired/status", statusOf(s.Namespaces, s.Namespaces)},
		{others, "/_botwired/metrics", contains("botwired_pending")},
	}
}

// ask makes every request so many times, in turns, over one connection, as a browser does.
func (w *crowdWatch) ask(ctx context.Context, p progress) ([]*crowdFigures, error) {
	requests := crowdRequests(w.settings)
	figures, took := make([]*crowdFigures, len(requests)), make([][]time.Duration, len(requests))
	for turn := range w.settings.Times {
		p.show("asking, %d/%d", turn+1, w.settings.Times)
		for i, r := range requests {
			f := &crowdFigures{Who: r.who, Path: r.path}
			d, err := w.askOnce(ctx, &r, f)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.path, err)
			}
			figures[i], took[i] = f, append(took[i], d)
		}
	}
	for i, f := range figures {
		f.times = timesOf(took[i])
	}
	return figures, nil
}

func (w *crowdWatch) askOnce(ctx context.Context, r *crowdRequest, f *crowdFigures) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+r.path, http.NoBody)
	if err != nil {
		return 0, err
	}
	least := w.settings.pending() + int(w.acknowledged.Load())
	began := time.Now()
	body, err := bodyOf(req)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	f.Bytes = len(body)
	return took, r.check(body, least, w.settings.pending()+int(w.begun.Load()))
}

func contains(text string) func([]byte, int, int) error {
	return func(body []byte, _, _ int) error {
		if !bytes.Contains(body, []byte(text)) {
			return fmt.Errorf("the answer lacks %q: %.200s", text, body)
		}
		return nil
	}
}

// statusOf expects all pending writes to be counted, and so many namespaces to be described.
func statusOf(namespaces, described int) func([]byte, int, int) error {
	return func(body []byte, least, most int) error {
		var doc struct {
			Pending         int
			NamespacesTotal int `json:"namespaces_total"`
			Namespaces      []struct{ Pending int }
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return err
		}
		if doc.Pending < least || doc.Pending > most {
			return fmt.Errorf("%d writes are pending, want %d to %d", doc.Pending, least, most)
		}
		if doc.NamespacesTotal != namespaces || len(doc.Namespaces) != described {
			return fmt.Errorf("%d of %d namespaces, want %d of %d", len(doc.Namespaces), doc.NamespacesTotal, described, namespaces)
		}
		return nil
	}
}

// longestWaiting expects so many writes, in the order of their waiting, that are among the first.
func longestWaiting(n int) func([]byte, int, int) error {
	return func(body []byte, _, _ int) error {
		var doc struct{ Pending []struct{ Seq uint64 } }
		if err := json.Unmarshal(body, &doc); err != nil {
			return err
		}
		if len(doc.Pending) != n {
			return fmt.Errorf("%d writes, want %d", len(doc.Pending), n)
		}
		for i, p := range doc.Pending {
			// Writes that were made at once may have their numbers in another order than their times.
			if p.Seq == 0 || p.Seq > uint64(i+1+fillers) {
				return fmt.Errorf("write %d is number %d of those that wait the longest", p.Seq, i+1)
			}
		}
		return nil
	}
}

// namespacesAre expects these, and that each has at least so many pending entries.
func namespacesAre(names []string, each int) func([]byte, int, int) error {
	return func(body []byte, _, _ int) error {
		var doc struct {
			Namespaces []struct {
				Namespace        string
				Pending, Entries int
			}
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return err
		}
		var got []string
		for _, n := range doc.Namespaces {
			got = append(got, n.Namespace)
			if n.Pending < each || n.Entries < each {
				return fmt.Errorf("%s has %d pending writes and %d entries, want %d", n.Namespace, n.Pending, n.Entries, each)
			}
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("the namespaces are %q, want %q", got, names)
		}
		return nil
	}
}

// entriesOf expects at least so many entries, all of them pending.
func entriesOf(n int) func([]byte, int, int) error {
	return func(body []byte, _, _ int) error {
		var doc struct{ Entries []struct{ Key, State string } }
		if err := json.Unmarshal(body, &doc); err != nil {
			return err
		}
		if len(doc.Entries) < n {
			return fmt.Errorf("%d entries, want at least %d", len(doc.Entries), n)
		}
		for _, e := range doc.Entries {
			if e.State != "pending" {
				return fmt.Errorf("the entry %s is %q", e.Key, e.State)
			}
		}
		return nil
	}
}
