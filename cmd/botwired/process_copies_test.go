package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// copiesTests are the tests in TestProcess about copied directories and processes that stood still.
var copiesTests = map[string]func(*testing.T, string){
	"copied while it runs":       testCopiedWhileItRuns,
	"a backup comes back":        testBackupComesBack,
	"the process stands still":   testStandsStill,
	"standing still with writes": testStandsStillWithPendingWrites,
}

func (c *child) stop() {
	c.t.Helper()
	c.signal(os.Interrupt)
	c.wantExit(time.Minute, cli.ExitOK)
}

// copyTree copies a directory with cp -a, including file times.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// The data directory of a stopped process is copied, and a second daemon starts on the copy. Both have its pending
// writes (contract 19).
func testCopiedWhileItRuns(t *testing.T, program string) {
	service := newMemoryService(t).up()
	dir := filepath.Join(t.TempDir(), "data")
	original := startChild(t, program, dir, freeAddress(t), service.url())
	for i := range 100 {
		no(t, original.put(fmt.Sprintf("ns/k%d", i), "first"))
	}
	service.down()
	no(t, original.put("ns/pending", "v"))
	original.signal(signalStop)
	copyTree(t, dir, dir+".copy")
	original.signal(signalContinue)

	second := startChild(t, program, dir+".copy", freeAddress(t), service.url(), impatient)
	for _, c := range []*child{original, second} {
		if value, err := c.value("ns/pending"); err != nil || value != "v" {
			t.Errorf("the pending write is %q, %v", value, err)
		}
	}
	service.up()
	second.stop()
	original.stop()
	if value, err := service.value("ns/pending"); err != nil || value != "v" {
		t.Errorf("upstream holds %q, %v", value, err)
	}
}

// A backup with a pending write takes the directory's place, when upstream has a newer one (contract 17, 19).
func testBackupComesBack(t *testing.T, program string) {
	service := newMemoryService(t).up()
	dir := filepath.Join(t.TempDir(), "data")
	c := startChild(t, program, dir, freeAddress(t), service.url())
	service.down()
	no(t, c.put("ns/k", "old"))
	c.signal(signalStop)
	copyTree(t, dir, dir+".backup")
	c.signal(signalContinue)
	service.up()
	c.drains()
	no(t, c.put("ns/k", "newer"))
	c.stop()
	no(t, os.RemoveAll(dir))
	no(t, os.Rename(dir+".backup", dir))
	c = startChild(t, program, dir, freeAddress(t), service.url())
	c.wantLost(service, "ns/k", "old", "newer")
}

// What a process has read before it stood still gets old meanwhile.
func testStandsStill(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--cache-fresh-for=2s", "--cache-stale-while-revalidate=0s")
	no(t, c.put("ns/k", "first"))
	eventually(t, func() error {
		n, err := c.pending()
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are pending", n)
		}
		return err
	})
	c.signal(signalStop)
	other := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	no(t, other.put("ns/k", "second"))
	other.stop()
	time.Sleep(3 * time.Second) // the test is about this time
	c.signal(signalContinue)
	value, err := c.value("ns/k")
	if err != nil || value != "second" {
		t.Errorf("the first read after it is %q, %v", value, err)
	}
}

// losers returns the values of an entry that have lost a conflict, the newest first.
func (c *child) losers(key string) (values []string, err error) {
	namespace, name, _ := strings.Cut(key, "/")
	_, _, text, err := c.exchange(http.MethodGet, "/_botwired/revisions?namespace="+namespace+"&key="+name, nil)
	var doc struct {
		Revisions []struct{ State, Value string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &doc)
	}
	for _, r := range doc.Revisions {
		if r.State == "lost" {
			values = append(values, r.Value)
		}
	}
	return values, err
}

// drains flushes the pending writes.
func (c *child) drains() {
	c.t.Helper()
	if status, _, text, err := c.exchange(http.MethodPost, "/_botwired/flush", nil); err != nil || status != http.StatusOK {
		c.t.Errorf("flushing: %d %s, %v: %s", status, text, err, c.stderr)
	}
}

// wantLost fails the test unless the daemon and upstream hold the winner, and the history has the loser.
func (c *child) wantLost(service *memoryService, key, loser, winner string) {
	c.t.Helper()
	c.drains()
	for name, value := range map[string]func(string) (string, error){"upstream": service.value, "the daemon": c.value} {
		if got, err := value(key); err != nil || got != winner {
			c.t.Errorf("%s holds %q of %s, %v; want %q", name, got, key, err, winner)
		}
	}
	if lost, err := c.losers(key); err != nil || !slices.Equal(lost, []string{loser}) {
		c.t.Errorf("lost are %q, %v; want %q, beaten by %q", lost, err, loser, winner)
	}
}

// A process stops with a pending write, and another host writes meanwhile. When upstream has that
// write, the test starts a daemon on a copy of the directory. The later write stays (contract 17, 19).
func testStandsStillWithPendingWrites(t *testing.T, program string) {
	service := newMemoryService(t).up()
	dir := filepath.Join(t.TempDir(), "data")
	c := startChild(t, program, dir, freeAddress(t), service.url(), "--flush-linger=1h")
	no(t, c.put("ns/k", "first"))
	c.signal(signalStop)
	copyTree(t, dir, dir+".copy")
	other := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	no(t, other.put("ns/k", "second"))
	other.drains()
	c.signal(signalContinue)
	c.wantLost(service, "ns/k", "first", "second")

	second := startChild(t, program, dir+".copy", freeAddress(t), service.url(), "--flush-linger=1h")
	second.wantLost(service, "ns/k", "first", "second")
}
