package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// wantGet checks the status of a GET, and the detail in its Cache-Status.
func (c *child) wantGet(key string, wantStatus int, wantCache string) {
	c.t.Helper()
	status, header, err := c.ask(http.MethodGet, "/memory/"+key, "")
	if got := header.Get("Cache-Status"); err != nil || status != wantStatus || got != wantCache {
		c.t.Errorf("GET %s: %d, %q, %v; want %d, %q", key, status, got, err, wantStatus, wantCache)
	}
}

// say adds a message to a history as BotWire's class for LangChain does.
func (c *child) say(key, message string) error {
	status, _, text, err := c.exchange(http.MethodGet, "/memory/"+key, nil)
	history := ""
	if err != nil || status != http.StatusNotFound {
		if history, err = valueOf(key, status, text, err); err != nil {
			return err
		}
	}
	return c.put(key, history+message)
}

// In an outage, a conversation begins and loses nothing, even if the daemon is killed. The settings
// prefetch and offline take effect.
func testBeginsInAnOutage(t *testing.T, program string) {
	service := newMemoryService(t).up()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	no(t, os.WriteFile(file, []byte(namespaces("{match: whole, prefetch: true}", "{match: guessed, offline: assume-absent}")), 0o600))
	start := func() *child {
		return startChild(t, program, filepath.Join(dir, "data"), freeAddress(t), service.url(), "--config", file,
			"--cache-absent-for", "0s", "--upstream-late-window", "1s")
	}
	c := start()
	for _, namespace := range []string{"chats", "whole"} {
		no(t, c.put(namespace+"/k", "v"))
	}
	if cmd, stderr := command(t.Context(), t, program, "flush", "--listen", c.address); cmd.Run() != nil {
		t.Fatal(stderr)
	}
	no(t, service.put("whole/theirs", "v"))
	for _, namespace := range []string{"chats", "whole"} {
		eventually(t, func() error { // the daemon lists them by itself
			status, _, err := c.ask(http.MethodGet, "/memory/"+namespace, "", "Cache-Control", "only-if-cached")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%s is not listed: %d", namespace, status)
			}
			return err
		})
	}
	eventually(t, func() error { // and fetches the values of one
		status, _, err := c.ask(http.MethodGet, "/memory/whole/theirs", "", "Cache-Control", "only-if-cached")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("whole/theirs is not fetched: %d", status)
		}
		return err
	})
	service.down()
	want := ""
	for i := range 40 {
		if i == 20 {
			c.kill()
			c = start()
		}
		message := fmt.Sprint(i, ";")
		want += message
		no(t, c.say("chats/new", message))
	}
	c.wantGet("chats/other", http.StatusNotFound, "botwired; hit; detail=stale-if-error")
	c.wantGet("guessed/k", http.StatusNotFound, "botwired; hit; detail=assume-absent")
	c.wantGet("unknown/k", http.StatusServiceUnavailable, "")
	service.up()
	eventually(t, func() error {
		got, err := service.value("chats/new")
		if err == nil && got != want {
			err = fmt.Errorf("upstream has %q", got)
		}
		return err
	})
}
