package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/proof/canary"
)

// Whatever a caller does in a sealed namespace, nothing plain of it goes upstream. A restart, an
// outage and the drain at the end change nothing about that.
func testSealed(t *testing.T, program string) {
	service := newMemoryService(t)
	var refuse sync.Map // a PUT is refused for good while it is set
	take := service.handler
	service.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, on := refuse.Load(true); on && r.Method == http.MethodPut {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"detail":"no"}`)
			return
		}
		take.ServeHTTP(w, r)
	})
	service.watch = &canary.Watch{Plain: []string{"plain"}}
	service.up()
	dir := t.TempDir()
	file, keys := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "keys")
	no(t, os.WriteFile(keys, seal.Generate(), 0o600))
	no(t, os.WriteFile(file, []byte("seal.key_file: "+keys+"\nnamespaces: [{match: canary-t*, sealed: true, write_through: true}, {match: 'canary*', sealed: true}]\n"), 0o600))
	start := func() *child {
		return startChild(t, program, filepath.Join(dir, "data"), freeAddress(t), service.url(), "--config", file)
	}
	c := start()
	want := func(method, target, body string, status int, headers ...string) (http.Header, string) {
		t.Helper()
		got, header, text, err := c.exchange(method, target, strings.NewReader(body), append(headers, "Content-Type", "application/json", "Botwired-Author", "canary-author")...)
		if err != nil || got != status {
			t.Fatalf("%s %s: %d %s, %v; want %d", method, target, got, text, err, status)
		}
		return header, text
	}
	settle := func() {
		t.Helper()
		want(http.MethodPost, "/_botwired/flush", "", http.StatusOK)
		c.wantPending(0)
	}
	put := func(key, value string, status int, headers ...string) (http.Header, string) {
		t.Helper()
		return want(http.MethodPut, "/memory/"+key, `{"value":"`+value+`"}`, status, headers...)
	}
	put("canary-ns/canary-key", "canary-value", 200)
	put("canary-ns/canary-gone", "canary-value", 200)
	put("canary-through/canary-key", "canary-value", 200)
	put("plain/k", "v", 200)
	settle()
	header, _ := want(http.MethodGet, "/memory/canary-ns/canary-key", "", 200)
	put("canary-ns/canary-key", "canary-value 2", 200, "If-Match", header.Get("ETag"))
	header, _ = want(http.MethodGet, "/memory/canary-through/canary-key", "", 200)
	put("canary-through/canary-key", "canary-value 2", 200, "If-Match", header.Get("ETag"))
	put("canary-through/canary-key", "canary-value 3", 412, "If-Match", header.Get("ETag"))
	want(http.MethodPost, "/_botwired/append?namespace=canary-ns&key=canary-key", `{"value":"canary-value"}`, 200)
	want(http.MethodDelete, "/memory/canary-ns/canary-gone", "", 200)
	want(http.MethodDelete, "/memory/canary-through/canary-absent", "", 404)
	settle()
	if _, text := want(http.MethodGet, "/memory/canary-ns?limit=10", "", 200); !strings.Contains(text, `"canary-key"`) || strings.Contains(text, "canary-gone") {
		t.Errorf("the listing is %s", text)
	}
	want(http.MethodPost, "/_botwired/import", `{"namespace":"canary-ns","key":"canary-imported","value":"canary-value","updated_at":1}`+"\n", 200)
	// Sizes and names are judged before a write is acknowledged.
	put("canary-ns/canary-"+strings.Repeat("k", 80), "canary-value", 400)
	want(http.MethodGet, "/memory/canary-ns/canary-"+strings.Repeat("k", 80), "", 400)
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_!#$%&'()*+,./:;<=>?@[]^`{|}~"
	random, noise := rand.New(rand.NewPCG(1, 2)), make([]byte, 99_000)
	for i := range noise {
		noise[i] = alphabet[random.IntN(len(alphabet))]
	}
	put("plain/large", string(noise), 200)
	put("canary-ns/canary-large", string(noise), 413)
	settle()
	// An undo of one write, and of all since a time.
	for i := range 12 {
		put(fmt.Sprint("canary-lost/canary-", i), "canary-value", 200)
	}
	settle()
	put("canary-lost/canary-0", "canary-value 2", 200)
	settle()
	want(http.MethodPost, "/_botwired/undo?namespace=canary-lost&key=canary-0", "", 200)
	before := time.Now().UTC().Format(time.RFC3339Nano)
	put("canary-lost/canary-1", "canary-value 2", 200)
	want(http.MethodDelete, "/memory/canary-lost/canary-2", "", 200)
	settle()
	since := "/_botwired/undo/namespace?namespace=canary-lost&author=canary-author&before=" + before
	_, text := want(http.MethodGet, since, "", 200)
	var preview struct {
		AsOf uint64 `json:"as_of"`
	}
	no(t, json.Unmarshal([]byte(text), &preview))
	want(http.MethodPost, fmt.Sprint(since, "&as_of=", preview.AsOf), "", 200)
	settle()
	// Upstream forgets a namespace, and gets it back.
	service.down()
	whole := take
	take = newMemoryService(t).handler
	service.up()
	want(http.MethodGet, "/memory/canary-lost/canary-0", "", 200, "Cache-Control", "no-cache")
	if _, text := want(http.MethodPost, "/_botwired/restore?namespace=canary-lost&timeout=1m", "", 200); !strings.Contains(text, `"restored":12`) {
		t.Errorf("the restoration is %s", text)
	}
	service.down()
	take = whole
	service.up()
	// A dead letter, and its retry.
	refuse.Store(true, true)
	put("canary-ns/canary-dead", "canary-value", 200)
	eventually(t, func() error {
		_, _, text, err := c.exchange(http.MethodGet, "/_botwired/dead-letters", nil)
		if err == nil && !strings.Contains(text, "canary-dead") {
			err = fmt.Errorf("no dead letter: %s", text)
		}
		return err
	})
	refuse.Delete(true)
	_, text = want(http.MethodGet, "/_botwired/dead-letters", "", 200)
	var dead struct {
		DeadLetters []struct{ Seq uint64 } `json:"dead_letters"`
	}
	no(t, json.Unmarshal([]byte(text), &dead))
	if len(dead.DeadLetters) != 1 {
		t.Fatalf("the dead letters are %s", text)
	}
	want(http.MethodPost, fmt.Sprintf("/_botwired/dead-letters/%d/retry", dead.DeadLetters[0].Seq), "", 200)
	settle()
	// An outage, SIGKILL, and what was pending goes upstream by the next process and its drain.
	service.down()
	put("canary-ns/canary-late", "canary-value late", 200)
	c.kill()
	service.up()
	c = start()
	if got, err := c.value("canary-ns/canary-late"); err != nil || got != "canary-value late" {
		t.Errorf("the pending write is %q, %v", got, err)
	}
	put("canary-ns/canary-last", "canary-value last", 200)
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, 0)
	// Another process with the same keys, and another data directory, reads all of it.
	other := startChild(t, program, filepath.Join(dir, "other"), freeAddress(t), service.url(), "--config", file)
	for i := range 12 {
		if got, err := other.value(fmt.Sprint("canary-lost/canary-", i)); err != nil || got != "canary-value" {
			t.Errorf("entry %d is %q, %v", i, got, err)
		}
	}
	for key, want := range map[string]string{
		"canary-key": "canary-value 2canary-value", "canary-late": "canary-value late", "canary-last": "canary-value last",
		"canary-dead": "canary-value", "canary-imported": "canary-value",
	} {
		if got, err := other.value("canary-ns/" + key); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", key, got, err, want)
		}
	}
	// One with other keys in its key file sees another, empty namespace.
	no(t, os.WriteFile(keys, seal.Generate(), 0o600))
	foreign := startChild(t, program, filepath.Join(dir, "foreign"), freeAddress(t), service.url(), "--config", file)
	if status, _, text, err := foreign.exchange(http.MethodGet, "/memory/canary-ns/canary-key", nil); err != nil || status != http.StatusNotFound {
		t.Errorf("with other keys: %d %s, %v", status, text, err)
	}
	no(t, service.watch.Err())
	if n := service.watch.Count(); n.Values < 30 {
		t.Errorf("too few sealed values have gone upstream: %s", n)
	}
}
