package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// startSelfhost runs selfhost until ctx ends. done gets its exit code.
func startSelfhost(ctx context.Context, t *testing.T, flags ...string) (address string, done <-chan int) {
	t.Helper()
	read, write := io.Pipe()
	ended := make(chan int)
	go func() {
		arguments := append([]string{"selfhost", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "m.db")}, flags...)
		ended <- run(ctx, arguments, io.Discard, write)
		write.Close()
	}()
	var line struct{ Address string }
	if err := json.NewDecoder(read).Decode(&line); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	return line.Address, ended
}

// Requests in progress get their answers when the memory service stops.
func TestSelfhostAnswersBeforeItStops(t *testing.T) {
	newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	address, done := startSelfhost(ctx, t, "--latency", "400ms")

	// The service reads the body when it carries the request out, and answers 200 ms later.
	begun := &httptrace.ClientTrace{Got100Continue: cancel}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), begun), http.MethodPut, "http://"+address+"/memory/ns/k",
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

// A "%" that begins no escape is a part of the key: selfhost answers as BotWire does, and keeps the connection.
func TestSelfhostAnswersABarePercentSign(t *testing.T) {
	newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	address, done := startSelfhost(ctx, t)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, step := range []struct {
		method, target string
		status         int
		want           string
	}{
		{http.MethodGet, "/memory/n/%zz", http.StatusBadRequest, `{"detail":"Invalid key.`},
		{http.MethodPut, "/memory/n/%zz", http.StatusBadRequest, `{"detail":"Invalid key.`},
		{http.MethodPut, "/memory/n/k", http.StatusOK, `"stored":true`},
		{http.MethodGet, "/memory/n/k/", http.StatusTemporaryRedirect, ""},
		{http.MethodDelete, "/memory/n/%6b", http.StatusOK, `"deleted":true`},
		{http.MethodGet, "/memory/n?limit=%zz", http.StatusUnprocessableEntity, `"detail"`},
		{http.MethodGet, "/health", http.StatusOK, `"status":"ok"`},
	} {
		body, header := "", ""
		if step.method == http.MethodPut {
			body, header = `{"value":"v"}`, "Content-Type: application/json\r\nContent-Length: 13\r\n"
		}
		if _, err := io.WriteString(conn, step.method+" "+step.target+" HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n"+body); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", step.method, step.target, err)
		}
		got, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != step.status || !strings.Contains(string(got), step.want) {
			t.Errorf("%s %s: HTTP %d %s, %v", step.method, step.target, response.StatusCode, got, err)
		}
	}
	cancel()
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
