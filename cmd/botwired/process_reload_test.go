package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// configured is a daemon with a configuration file and a token file, which it can reload.
type configured struct {
	*child
	file, tokenFile string
}

func startConfigured(t *testing.T, program, content string) *configured {
	t.Helper()
	dir := t.TempDir()
	c := &configured{file: filepath.Join(dir, "config.yaml"), tokenFile: filepath.Join(dir, "token")}
	c.write(t, c.tokenFile, "first")
	c.write(t, c.file, content)
	service := newMemoryService(t).up()
	c.child = startChild(t, program, filepath.Join(dir, "data"), freeAddress(t), service.url(),
		"--config", c.file, "--auth-token-file", c.tokenFile)
	return c
}

func (c *configured) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload sends SIGHUP and waits for a line of the log.
func (c *configured) reload(t *testing.T, says string) {
	t.Helper()
	before := strings.Count(c.stderr.String(), says)
	c.signal(syscall.SIGHUP)
	eventually(t, func() error {
		select {
		case <-c.exited:
			t.Fatalf("SIGHUP ended it: %s", c.stderr)
		default:
		}
		if strings.Count(c.stderr.String(), says) == before {
			return fmt.Errorf("the log does not say %q: %s", says, c.stderr)
		}
		return nil
	})
}

// wants checks the status that a token gets on a connection from before the reload, for simple and
// other requests.
func (c *configured) wants(t *testing.T, token string, status int) {
	t.Helper()
	for _, target := range []string{"/memory/n/absent", "/_botwired/status"} {
		got, _, err := c.ask(http.MethodGet, target, "", "Authorization", "Bearer "+token)
		if target != "/_botwired/status" && status == http.StatusOK && got == http.StatusNotFound {
			got = http.StatusOK // the guard let it in
		}
		if err != nil || got != status {
			t.Errorf("%s with the token %q: %d, %v; want %d", target, token, got, err, status)
		}
	}
}

// SIGHUP applies the token and the settings that can change at run time, says which others need a
// restart, and cuts no connection.
func testReload(t *testing.T, program string) {
	c := startConfigured(t, program, "log.level: error\n")
	c.wants(t, "first", http.StatusOK)
	if status, _, err := c.ask(http.MethodGet, "/memory/n/k", "", "Host", "dash.example", "Authorization", "Bearer first"); err != nil || status != http.StatusForbidden {
		t.Fatalf("an unknown Host: %d, %v", status, err)
	}
	c.write(t, c.tokenFile, "second")
	c.write(t, c.file, "log.level: info\nallowed_hosts: [dash.example]\ncache: {memory: 1MiB}\n")
	c.reload(t, "these settings have another value now")
	c.wants(t, "first", http.StatusUnauthorized)
	c.wants(t, "second", http.StatusOK)
	if status, _, err := c.ask(http.MethodGet, "/memory/n/absent", "", "Host", "dash.example", "Authorization", "Bearer second"); err != nil || status == http.StatusForbidden {
		t.Errorf("the Host that is allowed now: %d, %v", status, err)
	}
	log := c.stderr.String()
	for _, part := range []string{`"changed":["allowed_hosts","log.level"]`, `"new_token":true`, `"settings":["cache.memory"]`} {
		if !strings.Contains(log, part) {
			t.Errorf("the log does not say %s: %s", part, log)
		}
	}
	if strings.Contains(log, "second") {
		t.Errorf("the token is in the log: %s", log)
	}
}

// A SIGHUP ends the streams of a token that no longer holds: events, the monitor, and a web socket that is
// passed on. A reload that keeps the token ends none.
func testReloadEndsStreams(t *testing.T, program string) {
	dir := t.TempDir()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	}))
	defer upstream.Close()
	c := &configured{file: filepath.Join(dir, "config.yaml"), tokenFile: filepath.Join(dir, "token")}
	c.write(t, c.tokenFile, "first")
	c.write(t, c.file, "")
	c.child = startChild(t, program, filepath.Join(dir, "data"), freeAddress(t), upstream.URL, "--config", c.file, "--auth-token-file", c.tokenFile)
	open, socket := map[string]*bufio.Reader{}, net.Conn(nil)
	for target, headers := range map[string]string{
		"/_botwired/events": "", "/_botwired/monitor": "", "/ws": "Connection: Upgrade\r\nUpgrade: websocket\r\n",
	} {
		conn, err := net.Dial("tcp", c.address)
		no(t, err)
		defer conn.Close()
		no(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer first\r\n%s\r\n", target, c.address, headers)
		no(t, err)
		open[target] = bufio.NewReader(conn)
		resp, err := http.ReadResponse(open[target], nil)
		if err != nil || resp.StatusCode >= http.StatusBadRequest {
			t.Fatalf("%s: %v, %v", target, resp, err)
		}
		if target != "/ws" {
			open[target] = bufio.NewReader(resp.Body)
			continue
		}
		socket = conn
	}
	c.write(t, c.file, "log.level: debug\n")
	c.reload(t, "the configuration was reloaded")
	_, err := io.WriteString(socket, "hello")
	no(t, err)
	echo := make([]byte, 5)
	if _, err := io.ReadFull(open["/ws"], echo); err != nil || string(echo) != "hello" {
		t.Fatalf("the web socket after a reload that keeps the token: %q, %v", echo, err)
	}
	if _, err := open["/_botwired/events"].ReadString('\n'); err != nil {
		t.Fatalf("the events after a reload that keeps the token: %v", err)
	}
	c.write(t, c.tokenFile, "second")
	c.reload(t, "the configuration was reloaded")
	for target, stream := range open {
		if _, err := io.Copy(io.Discard, stream); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s goes on with a token that no longer holds", target)
		}
	}
}

// A configuration with any error changes nothing.
func testBadReload(t *testing.T, program string) {
	c := startConfigured(t, program, "")
	for name, spoil := range map[string]func(){
		"malformed setting": func() { c.write(t, c.file, "log.level: debug\nflush.linger: soon\n") },
		"empty token":       func() { c.write(t, c.tokenFile, "\n") },
		"no token":          func() { no(t, os.Remove(c.tokenFile)) },
	} {
		c.write(t, c.file, "log.level: debug\n")
		c.write(t, c.tokenFile, "second")
		spoil()
		c.reload(t, "nothing has changed")
		c.wants(t, "first", http.StatusOK)
		if strings.Contains(c.stderr.String(), `"level":"DEBUG"`) {
			t.Errorf("%s: the level of the log has changed: %s", name, c.stderr)
		}
	}
	if err := c.put("n/k", "v"); err == nil {
		t.Error("a write without a token was taken")
	}
}

// A SIGHUP that removes the token, or sets the first one, says so in the log.
func testReloadOfWhetherATokenIsNeeded(t *testing.T, program string) {
	dir := t.TempDir()
	c := &configured{file: filepath.Join(dir, "config.yaml"), tokenFile: filepath.Join(dir, "token")}
	c.write(t, c.tokenFile, "first")
	c.write(t, c.file, "auth.token_file: "+c.tokenFile+"\n")
	c.child = startChild(t, program, filepath.Join(dir, "data"), freeAddress(t), newMemoryService(t).up().url(), "--config", c.file)
	c.wants(t, "first", http.StatusOK)

	c.write(t, c.file, "")
	c.reload(t, "callers need no token any more")
	c.wants(t, "none", http.StatusOK)
	log := c.stderr.String()
	if !strings.Contains(log, `"level":"WARN","msg":"callers need no token any more`) || strings.Contains(log, `"new_token":true`) {
		t.Errorf("the log does not warn, or speaks of a new token: %s", log)
	}

	c.write(t, c.file, "auth.token_file: "+c.tokenFile+"\n")
	c.reload(t, "callers need a token from now on")
	c.wants(t, "none", http.StatusUnauthorized)
	c.wants(t, "first", http.StatusOK)
}

// Off loopback, no daemon starts without a token, and SIGHUP does not remove it either.
func testReloadKeepsTheTokenOffLoopback(t *testing.T, program string) {
	dir := t.TempDir()
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	c := &configured{file: filepath.Join(dir, "config.yaml"), tokenFile: filepath.Join(dir, "token")}
	c.write(t, c.tokenFile, "first")
	c.write(t, c.file, "auth.token_file: "+c.tokenFile+"\n")
	c.child = prepareChild(t, program, filepath.Join(dir, "data"), address, newMemoryService(t).up().url(), "--config", c.file, "--listen", "0.0.0.0:"+port)
	c.start()
	c.wants(t, "first", http.StatusOK)
	c.write(t, c.file, "")
	c.reload(t, "nothing has changed")
	c.wants(t, "none", http.StatusUnauthorized)
	c.wants(t, "first", http.StatusOK)
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The reader of the log goes away. The daemon goes on, however much it logs.
func testLogReaderGone(t *testing.T, program string) {
	read, write, err := os.Pipe()
	no(t, err)
	service := newMemoryService(t).up()
	c := prepareChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--log-level", "debug")
	c.cmd.Stderr = write
	c.start()
	no(t, errors.Join(write.Close(), read.Close()))
	for i := range 20 {
		no(t, c.put("n/k", fmt.Sprint(i)))
		if _, _, err := c.ask(http.MethodPost, "/_botwired/flush?timeout=20s", ""); err != nil {
			t.Fatal(err)
		}
	}
	c.signal(syscall.SIGHUP) // this is always logged
	c.signal(syscall.SIGHUP)
	no(t, c.put("n/k", "last"))
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
}

// 0.0.0.0 is every IPv4 address but no IPv6 address. The log shows the setting as it is.
func testListensOnIPv4(t *testing.T, program string) {
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	token := filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(token, []byte("secret"), 0o600))
	c := prepareChild(t, program, t.TempDir(), address, newMemoryService(t).url(),
		"--listen", "0.0.0.0:"+port, "--auth-token-file", token)
	c.start()
	eventually(t, func() error {
		if log := c.stderr.String(); !strings.Contains(log, `"0.0.0.0:`+port) {
			return fmt.Errorf("the log does not name the address as it was set: %s", log)
		}
		return nil
	})
}

// A reader of the log that stops reading does not block the daemon, and gets the log when it reads
// again.
func testLogReaderStops(t *testing.T, program string) {
	read, write := fullPipe(t)
	service := newMemoryService(t).up()
	c := prepareChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--log-level", "debug")
	c.cmd.Stderr = write
	c.start()
	no(t, write.Close())
	for i := range 20 {
		no(t, c.put("n/k", fmt.Sprint(i)))
	}
	if status, _, err := c.ask(http.MethodPost, "/_botwired/flush?timeout=20s", ""); err != nil || status != http.StatusOK {
		t.Errorf("flush: %d, %v", status, err)
	}
	var log safeBuffer
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(&log, read) }() // the last line is checked
	eventually(t, func() error {                                  // the rest fits the pipe
		if !strings.Contains(log.String(), `"journal read"`) {
			return errors.New("what waited for the log's reader does not come")
		}
		return nil
	})
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
	<-done
	text := log.String()
	for _, part := range []string{`"listening"`, `"journal read"`, `"stopped"`} {
		before, after, found := strings.Cut(text, part)
		if !found {
			t.Fatalf("the log lacks %s, or has it earlier: %.2000s", part, strings.TrimLeft(before, "-\n"))
		}
		text = after
	}
}

// A process whose log nobody reads still ends.
func testLogReaderNeverBack(t *testing.T, program string) {
	_, write := fullPipe(t)
	c := prepareChild(t, program, t.TempDir(), freeAddress(t), newMemoryService(t).up().url())
	c.cmd.Stderr = write
	c.start()
	no(t, write.Close())
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
}

// fullPipe returns a pipe that is full until somebody reads from it.
func fullPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	no(t, err)
	t.Cleanup(func() { _ = read.Close() })
	no(t, write.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for err == nil {
		_, err = write.WriteString(strings.Repeat("-\n", 32<<10)) // fills a pipe, or nearly
	}
	return read, write
}
