package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// Requests in progress get their answers when the memory service stops.
func TestSelfhostAnswersBeforeItStops(t *testing.T) {
	newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{
			"selfhost", "--listen", "127.0.0.1:0", "--latency", "400ms", "--db", filepath.Join(t.TempDir(), "m.db"),
		}, io.Discard, write)
		write.Close()
	}()
	log := json.NewDecoder(bufio.NewReader(read))
	var line struct{ Address string }
	if err := log.Decode(&line); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()

	// The service reads the body when it carries the request out, and answers 200 ms later.
	begun := &httptrace.ClientTrace{Got100Continue: cancel}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), begun), http.MethodPut, "http://"+line.Address+"/memory/ns/k",
		strings.NewReader(`{"value":"v"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d", response.StatusCode)
	}
	if code := <-done; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// selfhost logs that it creates a database: with a mistyped name, it would look like lost data.
func TestSelfhostTellsOfANewDatabase(t *testing.T) {
	newHome(t)
	database := filepath.Join(t.TempDir(), "m.db")
	for _, isNew := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var log safeBuffer
		done := make(chan int)
		go func() {
			done <- run(ctx, []string{"selfhost", "--listen", "127.0.0.1:0", "--db", database}, io.Discard, &log)
		}()
		eventually(t, func() error {
			if !strings.Contains(log.String(), "listening") {
				return errors.New("it does not listen")
			}
			return nil
		})
		cancel()
		if code := <-done; code != cli.ExitOK {
			t.Errorf("exit code %d: %s", code, log.String())
		}
		if told := strings.Contains(log.String(), "a new one was made"); told != isNew {
			t.Errorf("the log tells of a new database: %v, want %v", told, isNew)
		}
	}
}
