package selfhost

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func openAlone(t *testing.T, log *slog.Logger) *Server {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: filepath.Join(t.TempDir(), "memory.db"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Every connection of the pool syncs each commit and waits for other processes.
func TestEveryConnectionIsDurable(t *testing.T) {
	s := openAlone(t, nil)
	for range connections {
		conn, err := s.store.db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"} {
			var got string
			if err := conn.QueryRowContext(context.Background(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, want %s (%v)", pragma, got, want, err)
			}
		}
	}
}

// A full disk refuses only writes, is logged without the value, and the server recovers by itself.
func TestFullDisk(t *testing.T) {
	var log bytes.Buffer
	s := openAlone(t, slog.New(slog.NewTextHandler(&log, nil)))
	s.store.db.SetMaxOpenConns(1) // the page limit applies to one connection
	put := func(value string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("PUT", "/memory/a/k", strings.NewReader(`{"value":"`+value+`"}`))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w
	}
	limit := func(pages string) {
		if _, err := s.store.db.Exec("PRAGMA max_page_count = " + pages); err != nil {
			t.Fatal(err)
		}
	}
	put("small")
	limit("8")
	w := put(strings.Repeat("secret", 10_000))
	if want := `{"detail":"The disk is full; nothing was changed."}`; w.Code != http.StatusInsufficientStorage || w.Body.String() != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "full") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged %.300s", log.String())
	}
	if e, found, err := s.store.Get(context.Background(), "a", "k"); e.Value != "small" || !found || err != nil {
		t.Errorf("got %+v, %t, %v", e, found, err)
	}
	limit("1000000")
	if w := put(strings.Repeat("secret", 10_000)); w.Code != http.StatusOK {
		t.Errorf("with room again: %d %s", w.Code, w.Body)
	}
}

// Times grow by at least a microsecond, even if the clock goes back.
func TestTimesGrow(t *testing.T) {
	s := &store{last: 4_000_000_000_000_000}
	if got, want := s.now(), 4_000_000_000.000001; got != want {
		t.Errorf("got %f, want %f", got, want)
	}
	for last := s.now(); last < 4_000_000_000.001; {
		next := s.now()
		if next <= last {
			t.Fatalf("%f after %f", next, last)
		}
		last = next
	}
}

// After a scrub, no file holds what was deleted or overwritten.
func TestScrub(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "memory.db")
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	secret := strings.Repeat("canary", 3000)
	for _, key := range []string{"deleted", "overwritten"} {
		if err := s.store.Set(ctx, "ns", key, secret); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.store.Remove(ctx, "ns", "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Set(ctx, "ns", "overwritten", "new"); err != nil {
		t.Fatal(err)
	}
	found := func() (where []string) {
		files, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			} else if bytes.Contains(text, []byte("canary")) {
				where = append(where, file)
			}
		}
		return where
	}
	if len(found()) == 0 {
		t.Fatal("no file held it: the test tests nothing")
	}
	if err := s.Scrub(ctx); err != nil {
		t.Fatal(err)
	}
	if where := found(); len(where) > 0 {
		t.Errorf("it is in %q", where)
	}
	if e, ok, err := s.store.Get(ctx, "ns", "overwritten"); err != nil || !ok || e.Value != "new" {
		t.Errorf("%+v, %v, %v", e, ok, err)
	}
}
