package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/sealed"
)

// store is an engine in memory. An exact one compares.
type store struct {
	exact   bool
	entries map[journal.ID]upstream.Version
	asked   []journal.ID
	failed  error
	clock   float64
	planted string // replaces each value right before a write
}

func newStore(exact bool) *store {
	return &store{exact: exact, entries: make(map[journal.ID]upstream.Version), clock: 1e9}
}

func (s *store) Exact() bool        { return s.exact }
func (s *store) Named(string) bool  { return s.exact }
func (s *store) note(id journal.ID) { s.asked = append(s.asked, id) }
func (s *store) Known(id journal.ID) (upstream.Version, bool) {
	v := s.entries[id]
	v.Value = ""
	return v, s.exact
}

func (s *store) tamper(id journal.ID, f func(string) string) {
	v := s.entries[id]
	v.Value = f(v.Value)
	s.entries[id] = v
}

func (s *store) Get(_ context.Context, id journal.ID) (upstream.Version, error) {
	s.note(id)
	return s.entries[id], s.failed
}

func (s *store) List(_ context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	s.note(journal.ID{Namespace: namespace})
	for id, v := range s.entries {
		if id.Namespace == namespace {
			rows = append(rows, journal.Row{Key: id.Key, ListBytes: len(v.Value), UpdatedAt: v.WrittenAt})
		}
	}
	return rows, true, s.failed
}

func (s *store) Swap(_ context.Context, p upstream.Proposal) (upstream.Version, error) {
	s.note(p.ID)
	now := s.entries[p.ID]
	if s.planted != "" {
		now.Revision++
		now.Value = s.planted
		s.entries[p.ID] = now
	}
	if s.exact && now.Revision != p.Over.Revision {
		return upstream.Version{}, &upstream.Conflict{Now: &now}
	}
	s.clock++
	if p.Op == journal.Delete {
		delete(s.entries, p.ID)
		return upstream.Version{Deleted: now.Present()}, nil
	}
	v := upstream.Version{
		Revision: uint64(s.clock), Value: p.Value, ListBytes: p.ListBytes, WrittenAt: s.clock, CreatedAt: s.clock, Author: p.Author,
	}
	if s.exact {
		v.WrittenAt, v.Writer = p.WrittenAt, p.Writer
	}
	s.entries[p.ID] = v
	if !s.exact {
		v = upstream.Version{Value: p.Value, ListBytes: p.ListBytes}
	}
	return v, nil
}

// keysOf loads a key file with the given text.
func keysOf(t *testing.T, text []byte) *seal.Keys {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := seal.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// rotated returns a key file with the name key of another, and another sealing key.
func rotated(text []byte) []byte {
	name := func(text []byte, role string) []byte {
		for line := range bytes.Lines(text) {
			if bytes.HasPrefix(line, []byte(role)) {
				return line
			}
		}
		return nil
	}
	return append(bytes.Clone(name(text, "name")), name(seal.Generate(), "seal")...)
}

func isSealed(namespace string) bool { return namespace == "private" }

func open(s *store, k *seal.Keys) *sealed.Engine {
	return sealed.New(upstream.Backend{Engine: s}, "host", sealed.Options{Keys: k, Sealed: isSealed, Logger: slog.New(slog.DiscardHandler)})
}

var id = journal.ID{Namespace: "private", Key: "key"}

func put(t *testing.T, e *sealed.Engine, id journal.ID, value string, at float64) upstream.Version {
	t.Helper()
	v, err := e.Swap(t.Context(), upstream.Proposal{
		ID: id, Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value), WrittenAt: at, Writer: upstream.Writer{Host: "h", Seq: 7}, Author: "me",
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantRefused(t *testing.T, e *sealed.Engine, id journal.ID, verdict upstream.Verdict, part string) {
	t.Helper()
	v, err := e.Get(t.Context(), id)
	var failed *upstream.Error
	if !errors.As(err, &failed) || failed.Verdict != verdict || !failed.Answered || failed.Answer != nil || !strings.Contains(failed.Reason, part) || v != (upstream.Version{}) {
		t.Errorf("%s: %+v, %+v; want %s because %q", id, v, err, verdict, part)
	}
}

// contract 19: a version that this host has sealed under an earlier name is its own.
func TestAnEarlierName(t *testing.T) {
	s, k := newStore(false), keysOf(t, seal.Generate())
	put(t, open(s, k), id, "value", 50)
	for last, want := range map[uint64]string{7: "host", 6: "h"} {
		e := sealed.New(upstream.Backend{Engine: s}, "host", sealed.Options{
			Earlier: upstream.Earlier{"h": last}, Keys: k, Sealed: isSealed, Logger: slog.New(slog.DiscardHandler),
		})
		if v, err := e.Get(t.Context(), id); err != nil || v.Writer != (upstream.Writer{Host: want, Seq: 7}) {
			t.Errorf("up to %d: %+v, %v", last, v.Writer, err)
		}
	}
}

// Names and values come back as they were, with their writer and time; upstream has nothing of them.
func TestWhatIsSealedComesBack(t *testing.T) {
	for _, exact := range []bool{false, true} {
		s := newStore(exact)
		e := open(s, keysOf(t, seal.Generate()))
		put(t, e, id, "välue", 50.5)
		put(t, e, journal.ID{Namespace: "plain", Key: "key"}, "value", 50)
		v, err := e.Get(t.Context(), id)
		if err != nil || v.Value != "välue" || v.ListBytes != 5 || v.Author != "me" || v.Writer != (upstream.Writer{Host: "h", Seq: 7}) {
			t.Errorf("exact %v: %+v, %v", exact, v, err)
		}
		if at := map[bool]float64{true: v.WrittenAt, false: v.MadeAt}[exact]; at != 50.5 {
			t.Errorf("exact %v: it was made at %v", exact, at)
		}
		rows, complete, err := e.List(t.Context(), "private")
		if err != nil || !complete || len(rows) != 1 || rows[0].Key != "key" || !rows[0].Rough {
			t.Errorf("the listing is %+v, %v", rows, err)
		}
		for id, v := range s.entries {
			if id.Namespace != "plain" && (id.Namespace == "private" || id.Key == "key" || !strings.HasPrefix(v.Value, "bw1.") || v.Author != "") {
				t.Errorf("upstream has %s: %+v", id, v)
			}
		}
		if _, ok := s.entries[journal.ID{Namespace: "plain", Key: "key"}]; !ok {
			t.Error("a plain entry was renamed")
		}
		if !e.Named("private") || e.Named("plain") != exact {
			t.Error("versions of sealed namespaces name their writers")
		}
	}
}

// Whatever upstream does to a value, no other value comes out of it, and a write replaces it.
func TestForgeriesAreRefused(t *testing.T) {
	s := newStore(false)
	e := open(s, keysOf(t, seal.Generate()))
	other := journal.ID{Namespace: "private", Key: "other"}
	put(t, e, id, "value", 50)
	put(t, e, other, "another", 51)
	mine, theirs := s.asked[0], s.asked[1]
	whole := s.entries[mine].Value
	for name, forged := range map[string]string{
		"moved": s.entries[theirs].Value, "planted": "value", "cut": whole[:len(whole)-4], "extended": whole + "AAAA",
		"empty": "", "another alphabet": strings.ReplaceAll(whole, "A", "+"), "the other case": strings.ToUpper(whole),
	} {
		if forged == whole {
			continue
		}
		s.tamper(mine, func(string) string { return forged })
		t.Run(name, func(t *testing.T) { wantRefused(t, e, id, upstream.Permanent, "refused") })
	}
	for i := range whole {
		flipped := []byte(whole)
		flipped[i] ^= 1
		s.tamper(mine, func(string) string { return string(flipped) })
		if v, err := e.Get(t.Context(), id); err == nil {
			t.Fatalf("with byte %d flipped: %+v", i, v)
		}
	}
	wantNotOpened := func(want string) {
		t.Helper()
		if got := e.NotOpened()["private"]; got != want {
			t.Errorf("%q is not opened, want %q", got, want)
		}
	}
	wantNotOpened("key: " + seal.ErrForged.Error())
	s.tamper(theirs, func(string) string { return "planted" })
	wantRefused(t, e, other, upstream.Permanent, "refused")
	wantNotOpened("other: " + seal.ErrNotSealed.Error())
	delete(s.entries, theirs)
	if _, _, err := e.List(t.Context(), "private"); err != nil {
		t.Error(err)
	}
	wantNotOpened("key: " + seal.ErrForged.Error())
	put(t, e, id, "value 2", 52)
	wantNotOpened("")
	if v, err := e.Get(t.Context(), id); err != nil || v.Value != "value 2" {
		t.Errorf("it is %+v, %v", v, err)
	}
}

// A key that is not here is named, and what it has sealed may be right.
func TestUnknownKeysAreNamed(t *testing.T) {
	s, text := newStore(false), seal.Generate()
	k := keysOf(t, text)
	newer := keysOf(t, rotated(text))
	put(t, open(s, newer), id, "value", 50)
	e := open(s, k)
	wantRefused(t, e, id, upstream.Paused, newer.ID())
	if got := e.NotOpened()["private"]; !strings.Contains(got, newer.ID()) {
		t.Errorf("%q is not opened", got)
	}
	both := append(bytes.Clone(text), bytes.Replace(rotatedLine(rotated(text)), []byte("seal"), []byte("open"), 1)...)
	if v, err := open(s, newer).Get(t.Context(), id); err != nil || v.Value != "value" {
		t.Errorf("with the new key: %+v, %v", v, err)
	}
	_ = keysOf(t, both) // a rotated file loads
}

// rotatedLine returns the line of the sealing key.
func rotatedLine(text []byte) []byte { return text[bytes.Index(text, []byte("\nseal"))+1:] }

// Names that somebody has planted are left out of a listing.
func TestPlantedNamesAreDropped(t *testing.T) {
	s := newStore(false)
	e := open(s, keysOf(t, seal.Generate()))
	put(t, e, id, "value", 50)
	hidden := s.asked[0]
	for _, name := range []string{"key", "planted", hidden.Key[:len(hidden.Key)-1], hidden.Key + "A"} {
		s.entries[journal.ID{Namespace: hidden.Namespace, Key: name}] = upstream.Version{Revision: 1, Value: "x"}
	}
	rows, _, err := e.List(t.Context(), "private")
	if err != nil || len(rows) != 1 || rows[0].Key != "key" {
		t.Errorf("the listing is %+v, %v", rows, err)
	}
	if got := e.NotOpened()["private"]; got != "4 names that no key opens" {
		t.Errorf("%q is not opened", got)
	}
}

// An exact engine replaces a version that is not authentic, and none under an unknown key.
func TestExactEngineReplacesForgeries(t *testing.T) {
	s, text := newStore(true), seal.Generate()
	e := open(s, keysOf(t, text))
	put(t, e, id, "value", 50)
	hidden := s.asked[0]
	s.tamper(hidden, func(string) string { return "planted" })
	put(t, e, id, "value 2", 51) // over nothing that is known
	if v, err := e.Get(t.Context(), id); err != nil || v.Value != "value 2" {
		t.Errorf("it is %+v, %v", v, err)
	}
	foreign := open(s, keysOf(t, rotated(text)))
	if v, ok := foreign.Known(id); ok {
		t.Errorf("a host with another key knows %+v, and may replace it", v)
	}
	_, err := foreign.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Put, Value: "x", WrittenAt: 60})
	if failed := upstream.ErrorOf(err); failed == nil || failed.Verdict != upstream.Paused {
		t.Errorf("a host with another key replaces it: %v", err)
	}
	_, err = e.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Put, Value: "x", WrittenAt: 60})
	var conflict *upstream.Conflict
	if !errors.As(err, &conflict) || conflict.Now.Value != "value 2" {
		t.Errorf("the conflict is %v", err)
	}
}

// A version that somebody plants again and again never becomes the one that a conflict names.
func TestPlantedVersionsWinNoConflict(t *testing.T) {
	s := newStore(true)
	e := open(s, keysOf(t, seal.Generate()))
	put(t, e, id, "value", 50)
	s.planted = "planted"
	_, err := e.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Put, Value: "x", WrittenAt: 60})
	var conflict *upstream.Conflict
	if !errors.As(err, &conflict) || conflict.Now != nil {
		t.Errorf("it is %+v", err)
	}
}

// Sizes and names are judged before a write is acknowledged: what passes has a place upstream.
func TestLimits(t *testing.T) {
	e := open(newStore(false), keysOf(t, seal.Generate()))
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(33 + random.IntN(90))
		}
		return string(b)
	}
	for _, row := range []struct {
		namespace string
		key       int
		value     string
		status    int
	}{
		{"private", 80, "v", 0}, {"private", 81, "v", 400}, {"private", 81, "", 400}, {"plain", 128, "v", 0},
		{"private", 1, noise(70_000), 0}, {"private", 1, noise(99_000), 413}, {"plain", 1, noise(99_000), 0},
		{"private", 1, strings.Repeat("compresses well ", 6000), 0},
	} {
		status := 0
		if r := e.Check(journal.ID{Namespace: row.namespace, Key: strings.Repeat("k", row.key)}, row.value); r != nil {
			status = r.Status
		}
		if status != row.status {
			t.Errorf("%s, a key of %d, a value of %d: %d, want %d", row.namespace, row.key, len(row.value), status, row.status)
		}
	}
}

// Upstream's own answer to a caller names no hidden name.
func TestAnswersNameNoHiddenNames(t *testing.T) {
	s, k := newStore(false), keysOf(t, seal.Generate())
	e := open(s, k)
	hidden := k.For("private").Name()
	s.failed = &upstream.Error{Verdict: upstream.Permanent, Reason: "no " + hidden, Answer: []byte(`{"detail":"` + hidden + `"}`), Answered: true}
	_, err := e.Get(t.Context(), id)
	if failed := upstream.ErrorOf(err); failed.Answer != nil || strings.Contains(failed.Reason, hidden) || failed.Verdict != upstream.Permanent {
		t.Errorf("it is %+v", failed)
	}
	s.failed = &upstream.Error{Verdict: upstream.Permanent, Answer: []byte(`{"detail":[{"input":"` + seal.Prefix + `"}]}`), Answered: true}
	if _, err := e.Get(t.Context(), id); upstream.ErrorOf(err).Answer != nil {
		t.Errorf("it is %+v", err)
	}
}
