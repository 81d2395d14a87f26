package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
)

// wantNowhere fails if a file of the data directory, the log, the metrics or the status hold a text.
func (c *child) wantNowhere(text string) {
	c.t.Helper()
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(content, []byte(text)) {
			c.t.Errorf("%s holds the purged value", path)
		}
		return err
	})
	if err != nil {
		c.t.Error(err)
	}
	if strings.Contains(c.stderr.String(), text) {
		c.t.Error("the log holds the purged value")
	}
	for _, target := range []string{"metrics", "status", "dead-letters", "pending", "history", "entries?namespace=n"} {
		if _, _, answer, err := c.exchange(http.MethodGet, "/_botwired/"+target, nil); err != nil || strings.Contains(answer, text) {
			c.t.Errorf("%s: %v", target, err)
		}
	}
}

func (c *child) purge(query string) (status int, doc api.Purged, answer string) {
	c.t.Helper()
	status, _, answer, err := c.exchange(http.MethodPost, "/_botwired/purge?"+query, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(answer), &doc) // a refusal has only a detail
	return status, doc, answer
}

// A purge with upstream down changes nothing, unless it is of what is here. Killed amid it again and
// again, it is finished by the next one: no file, log or metric holds the value, and upstream does not either.
func testPurge(t *testing.T, program string) {
	const entries = 2000
	canary := "canary-" + rand.Text() + rand.Text()
	service, dir, address := newMemoryService(t).up(), t.TempDir(), freeAddress(t)
	start := func() *child {
		return startChild(t, program, dir, address, service.url(), impatient, "--quota-writes-per-day=100000")
	}
	c := start()
	var writers sync.WaitGroup
	for w := range 10 {
		writers.Go(func() {
			for i := w; i < entries; i += 10 {
				if err := c.put(fmt.Sprint("n/k", i), fmt.Sprint(canary, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	for _, value := range []string{"first", "second"} {
		if err := c.put("other/k", value+" stays"); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, err := c.ask(http.MethodPost, "/_botwired/flush", ""); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}

	service.down()
	if status, _, answer := c.purge("namespace=n"); status != http.StatusServiceUnavailable || !strings.Contains(answer, "local=true") {
		t.Errorf("with upstream down: %d %s", status, answer)
	}
	if got, err := c.value("n/k7"); err != nil || got != canary+"7" {
		t.Errorf("after a refused purge: %q, %v", got, err)
	}
	if err := c.put("n2/pending", canary+" pending"); err != nil {
		t.Fatal(err)
	}
	if status, doc, answer := c.purge("namespace=n2&key=pending&local=true"); status != http.StatusOK || !doc.Done || doc.Dropped != 1 {
		t.Errorf("of a pending write, here only: %d %s", status, answer)
	}

	service.up()
	amid := 0
	for range 4 {
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.ask(http.MethodPost, "/_botwired/purge?namespace=n", "")
			answered <- err
		}()
		time.Sleep(300 * time.Millisecond)
		c.kill()
		if <-answered != nil {
			amid++
		}
		c = start()
	}
	if amid == 0 {
		t.Error("the purge ends before each kill")
	}
	for {
		status, doc, answer := c.purge("namespace=n")
		if status == http.StatusOK && doc.Done && len(doc.NotReached) > 0 {
			break
		}
		if status != http.StatusGatewayTimeout && status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", status, answer)
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.wantNowhere(canary)
	for _, i := range []int{0, 7, entries - 1} {
		if value, err := service.value(fmt.Sprint("n/k", i)); err == nil {
			t.Errorf("upstream still has %q", value)
		}
		if value, err := c.value(fmt.Sprint("n/k", i)); err == nil {
			t.Errorf("a reader still sees %q", value)
		}
	}
	if got, err := c.value("other/k"); err != nil || got != "second stays" {
		t.Errorf("another entry: %q, %v", got, err)
	}
	if _, _, answer, err := c.exchange(http.MethodGet, "/_botwired/revisions?namespace=other&key=k", nil); err != nil || !strings.Contains(answer, "first stays") {
		t.Errorf("its history: %s, %v", answer, err)
	}
	c.kill()
	c = start()
	c.wantNowhere(canary)
}
