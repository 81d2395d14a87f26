package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Callers who wait for the latency when the memory service stops get their answers.
func TestSelfhostAnswersBeforeItStops(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{
			"selfhost", "--listen", "127.0.0.1:0", "--latency", "1s", "--db", filepath.Join(t.TempDir(), "m.db"),
		}, io.Discard, write)
		write.Close()
	}()
	log := json.NewDecoder(bufio.NewReader(read))
	var line struct{ Address string }
	if err := log.Decode(&line); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+line.Address+"/memory/ns/k",
		strings.NewReader(`{"value":"v"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	time.AfterFunc(300*time.Millisecond, cancel) // the request is under way, and not carried out
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d", response.StatusCode)
	}
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
