package cluster

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// A backup that is put back under a running engine, as docs/scale.md says, brings no deleted entry back. It is
// another bucket, also for an engine that was away and has seen nothing newer.
func TestBackupOfThePage(t *testing.T) {
	s := RunServer(t)
	var atBackup marks
	a := engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) { o.Marks = &atBackup })
	v := swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	stays := swapped(t, a, putting("stays", "v", 1000, 2, upstream.Version{}))
	sounds(t, a)
	js := admin(t, s.URL())
	nc := js.Conn()
	type answer struct {
		Config  json.RawMessage `json:"config"`
		State   json.RawMessage `json:"state"`
		Deliver string          `json:"deliver_subject,omitempty"`
		Error   json.RawMessage `json:"error,omitempty"`
	}
	ask := func(subject string, body []byte) (got answer) {
		t.Helper()
		m, err := nc.RequestWithContext(t.Context(), subject, body)
		noError(t, err)
		if len(m.Data) > 0 {
			noError(t, json.Unmarshal(m.Data, &got))
		}
		if got.Error != nil {
			t.Fatalf("%s: %s", subject, got.Error)
		}
		return got
	}
	chunks := make(chan []byte, 64)
	_, err := nc.Subscribe("chunks", func(m *nats.Msg) {
		chunks <- bytes.Clone(m.Data)
		_ = m.Respond(nil) // the last one wants no answer
	})
	noError(t, err)
	backup := ask("$JS.API.STREAM.SNAPSHOT.KV_memory", []byte(`{"deliver_subject":"chunks","no_consumers":true}`))
	known, err := atBackup.Load()
	noError(t, err)
	var copied [][]byte
	for {
		chunk := <-chunks
		copied = append(copied, chunk)
		if len(chunk) == 0 {
			break
		}
	}

	swapped(t, a, upstream.Proposal{ID: entry("k"), Op: journal.Delete, WrittenAt: 1001, Writer: upstream.Writer{Host: "h1", Seq: 3}, Over: v})
	sounds(t, a)
	noError(t, js.DeleteStream(t.Context(), "KV_memory"))
	until(t, func() bool { return a.State().Lost != "" })
	body, err := json.Marshal(backup)
	noError(t, err)
	to := ask("$JS.API.STREAM.RESTORE.KV_memory", body).Deliver
	for _, chunk := range copied {
		ask(to, chunk)
	}
	present := func(e *natskv.Engine, key string) bool {
		got, err := e.Get(t.Context(), entry(key))
		return err == nil && got.Present()
	}
	b := engineOf(t, "h2", []string{s.URL()})
	if !present(b, "k") || present(a, "k") || a.State().Lost == "" {
		t.Fatalf("the backup is not back, or its engine has not noticed: %q", a.State().Lost)
	}
	away := engineOf(t, "h3", []string{s.URL()}, func(o *natskv.Options) { o.Marks = &marks{mark: known} })
	until(t, func() bool { return strings.Contains(away.State().Lost, "made anew") })
	noError(t, a.Accept(true))
	until(t, func() bool { return !present(b, "k") })
	if got, err := b.Get(t.Context(), entry("stays")); err != nil || got.WrittenAt != stays.WrittenAt {
		t.Errorf("the other entry is %+v, %v", got, err)
	}
}
