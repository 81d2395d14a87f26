package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/sealed"
)

// sealer returns an engine that seals the namespace canary-ns with the keys of a file's text.
func sealer(t *testing.T, s *Local, host, text string) upstream.Backend {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	e := engineOf(t, host, []string{s.URL()})
	sounds(t, e)
	return sealed.New(e.Backend(), host, sealed.Options{
		Keys: keys, Sealed: func(namespace string) bool { return namespace == "canary-ns" }, Logger: slog.New(slog.DiscardHandler),
	}).Backend()
}

// Hosts with the same keys share a sealed namespace in a bucket, a host with an older key replaces nothing of
// it, and the bucket has nothing plain.
func TestSealedInABucket(t *testing.T) {
	s := RunServer(t)
	older := string(seal.Generate())
	_, fresh, _ := strings.Cut(string(seal.Generate()), "\nseal ")
	newer := strings.Replace(older, "\nseal ", "\nopen ", 1) + "seal " + fresh
	a, b, old := sealer(t, s, "h1", newer), sealer(t, s, "h2", newer), sealer(t, s, "h3", older)

	var mu sync.Mutex
	told := map[journal.ID]upstream.Version{}
	b.Engine.(*sealed.Engine).Use("canary-ns")
	b.View.Follow(func(id journal.ID, now upstream.Version) {
		mu.Lock()
		defer mu.Unlock()
		told[id] = now
	})
	id := journal.ID{Namespace: "canary-ns", Key: "canary-key"}
	write := func(e upstream.Backend, op journal.Op, value string, at float64, over upstream.Version) (upstream.Version, error) {
		return e.Swap(t.Context(), upstream.Proposal{
			ID: id, Op: op, Value: value, ListBytes: len(value), WrittenAt: at, Author: "canary-author",
			Writer: upstream.Writer{Host: e.Host, Seq: uint64(at)}, Over: over,
		})
	}
	must := func(v upstream.Version, err error) upstream.Version {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}

	first := must(write(a, journal.Put, "canary-value 1", 1000, upstream.Version{}))
	until(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return told[id].Revision == first.Revision
	})
	if row, present, _ := b.View.Entry(id); !present || row.Key != id.Key || row.UpdatedAt != 1000 {
		t.Errorf("another host's view has %+v, %v", row, present)
	}
	second := must(write(b, journal.Put, "canary-value 2", 1001, must(b.Get(t.Context(), id))))
	_, err := write(a, journal.Put, "canary-value 3", 1002, first)
	if conflict, ok := errors.AsType[*upstream.Conflict](err); !ok || conflict.Now == nil || conflict.Now.Value != "canary-value 2" || conflict.Now.Writer.Host != "h2" {
		t.Errorf("a write over an older version: %v", err)
	}
	if v := must(a.Get(t.Context(), id)); v.Value != "canary-value 2" || v.WrittenAt != 1001 || v.Author != "canary-author" || v.Revision != second.Revision {
		t.Errorf("it reads %+v", v)
	}
	for _, e := range []upstream.Backend{a, old} {
		if rows, complete, err := e.List(t.Context(), "canary-ns"); err != nil || !complete || len(rows) != 1 || rows[0].Key != id.Key {
			t.Errorf("%s lists %+v, %v", e.Host, rows, err)
		}
	}

	_, err = old.Get(t.Context(), id)
	failed(t, err, upstream.Paused, "sealed with key")
	_, err = write(old, journal.Put, "canary-value of an old key", 1003, upstream.Version{})
	failed(t, err, upstream.Paused, "sealed with key")
	until(t, func() bool { _, present, _ := old.View.Entry(id); return present })
	if v, known := old.Known(id); known {
		t.Errorf("a host with an older key knows %+v, and may replace it", v)
	}

	var history []string
	versions, err := b.Revisions(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range versions {
		history = append(history, versions[i].Value)
	}
	if got := fmt.Sprint(history); !strings.Contains(got, "canary-value 1") || !strings.Contains(got, "canary-value 2") {
		t.Errorf("the history is %s", got)
	}
	must(write(a, journal.Delete, "", 1004, must(a.Get(t.Context(), id))))
	if v := must(b.Get(t.Context(), id)); !v.Deleted || v.WrittenAt != 1004 {
		t.Errorf("after a delete it is %+v", v)
	}
	wantNoCanary(t, admin(t, s.URL()))
}

// wantNoCanary reads all that the bucket's stream has ever kept.
func wantNoCanary(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs < 3 {
		t.Fatalf("the bucket has %+v, %v", info, err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Appendf(nil, "%s %v %s", m.Subject, m.Header, m.Data)
		if bytes.Contains(bytes.ToLower(all), []byte("canary-")) {
			t.Errorf("the bucket has %s", all)
		}
	}
}
