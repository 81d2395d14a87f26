//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// serviceTests are the tests in TestProcess where the test is the service manager.
var serviceTests = map[string]func(*testing.T, string){
	"restarts with a socket unit":  testRestartsWithASocket,
	"notifications":                testNotifications,
	"callers wait at a short stop": testCallersWaitAtAShortStop,
	"sockets that are refused":     testRefusedSockets,
	"a socket for every user":      testSocketForEveryUser,
	"a watchdog":                   testWatchdog,
	"sockets are not for children": testSocketsAreNotForChildren,
}

// callers write and read, busily or with pauses, on kept-alive connections, and collect their errors.
type callers struct {
	stop  chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	errs  []error
	acked map[string]string
}

func work(address string) *callers {
	w := &callers{stop: make(chan struct{}), acked: map[string]string{}}
	for i := range 8 {
		w.wg.Go(func() { w.call(i, address) })
	}
	return w
}

// call does not retry, but net/http retries GETs by itself. One exception: if the machine delayed the
// caller longer than the daemon waits for an idle one, a PUT on the closed connection is sent again.
func (w *callers) call(i int, address string) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &child{address: address, client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
	answered := time.Now()
	for n := 0; ; n++ {
		key, value := fmt.Sprintf("ns%d/k%d", i, n%5), strconv.Itoa(n)
		err := c.put(key, value)
		if errors.Is(err, io.EOF) && time.Since(answered) > idleGrace {
			err = c.put(key, value)
		}
		if err == nil {
			w.acknowledge(key, value)
			var got string
			if got, err = c.value(key); err == nil && got != value {
				err = fmt.Errorf("%s is %q, and %q was acknowledged", key, got, value)
			}
		}
		if err != nil {
			w.fail(err)
		}
		answered = time.Now()
		select {
		case <-w.stop:
			return
		case <-time.After(time.Duration(i*i) * 10 * time.Millisecond): // up to half a second
		}
	}
}

func (w *callers) acknowledge(key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[key] = value
}

func (w *callers) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

// end stops the callers, and checks that no write failed and that all are there.
func (w *callers) end(t *testing.T, value func(string) (string, error)) {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	if err := errors.Join(w.errs...); err != nil {
		t.Errorf("callers were refused: %v", err)
	}
	for key, want := range w.acked {
		if got, err := value(key); err != nil || got != want {
			t.Errorf("%s: %q, %v, and %q was acknowledged", key, got, err, want)
		}
	}
}

const restarts = 4

func testRestartsWithASocket(t *testing.T, program string) {
	m := newManager(t)
	address := m.listen("tcp", "127.0.0.1:0").Addr().String()
	up := newMemoryService(t).up()
	args := []string{"--data-dir", t.TempDir(), "--upstream-url", up.url()}
	c := m.begin(program, address, args...)
	m.ready(c, 1)
	w := work(address)
	for i := range restarts {
		c.signal(syscall.SIGTERM)
		c.wantExit(time.Minute, cli.ExitOK)
		c = m.begin(program, address, args...)
		m.ready(c, i+2)
	}
	w.end(t, c.value)
	if status, _, err := c.ask(http.MethodPost, "/_botwired/flush", ""); err != nil || status != http.StatusOK {
		t.Errorf("flush: %d, %v", status, err)
	}
	for key, want := range w.acked {
		if got, err := up.value(key); err != nil || got != want {
			t.Errorf("upstream, %s: %q, %v, and %q was acknowledged", key, got, err, want)
		}
	}
}

func unixTransport(path string) *http.Transport {
	return &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", path) }} //nolint:staticcheck // no context is at hand
}

func testNotifications(t *testing.T, program string) {
	m := newManager(t)
	address := m.listen("tcp", "127.0.0.1:0").Addr().String()
	c := m.begin(program, address, "--data-dir", t.TempDir(), "--upstream-url", "http://"+freeAddress(t),
		"--flush-drain-timeout", "3s", impatient)
	m.ready(c, 1)
	c.signal(syscall.SIGHUP)
	m.ready(c, 2)
	no(t, c.put("ns/key", "private"))
	eventually(t, func() error {
		if m.count("STATUS=Ready. Upstream does not answer: writes are kept on this disk.") == 0 {
			return fmt.Errorf("no status says so: %q", m.all())
		}
		return nil
	})
	c.client.Timeout = 5 * time.Second // a caller that comes when the daemon has ended waits for the next one
	c.signal(syscall.SIGTERM)
	eventually(t, func() error { // each caller is told that its connection ends
		select {
		case <-c.exited:
			t.Fatal("no caller heard that its connection ends")
		default:
		}
		answer, err := c.client.Get(c.url("/memory/ns/key"))
		if err == nil && !answer.Close {
			err = errors.New("the connection stays")
		}
		if answer != nil {
			answer.Body.Close()
		}
		return err
	})
	if answer, err := c.client.Get(c.url("/memory/ns/key")); err != nil { // it was told before that, not at the very end
		t.Errorf("the daemon does not answer new connections any more: %v", err)
	} else {
		answer.Body.Close()
	}
	c.wantExit(time.Minute, cli.ExitOK)
	told := strings.Join(m.all(), "\n")
	for _, want := range []string{"RELOADING=1", "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000"} {
		if strings.Count(told, want) != 1 {
			t.Errorf("not once %q: %s", want, told)
		}
	}
	if strings.Contains(told, "private") || strings.Contains(told, "key") {
		t.Errorf("a value or a key is in the notifications: %s", told)
	}
}

// If the listener outlives the daemon, a short stop still answers callers.
func testCallersWaitAtAShortStop(t *testing.T, program string) {
	release := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); upstream.Close() })
	m := newManager(t)
	address := m.listen("tcp", "127.0.0.1:0").Addr().String()
	c := m.begin(program, address, "--data-dir", t.TempDir(), "--upstream-url", upstream.URL, impatient,
		"--flush-drain-timeout", "1s")
	m.ready(c, 1)
	waited := make(chan string, 1)
	go func() {
		status, header, err := c.ask(http.MethodPut, "/memory/ns/waits", `{"value":"v"}`, "Prefer", "wait=60")
		waited <- fmt.Sprintf("%d %.7s %v", status, header.Get("Botwired-Write"), err)
	}()
	eventually(t, func() error { // the daemon has accepted the write
		_, err := c.value("ns/waits")
		return err
	})
	c.signal(syscall.SIGTERM)
	if got := <-waited; got != "200 pending <nil>" {
		t.Errorf("who waited heard %s", got)
	}
	c.wantExit(time.Minute, cli.ExitOK)
}

func testRefusedSockets(t *testing.T, program string) {
	read, write, err := os.Pipe()
	no(t, err)
	defer read.Close()
	defer write.Close()
	datagram, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	no(t, err)
	defer datagram.Close()
	udp, err := datagram.File()
	no(t, err)
	stream := newManager(t)
	at := stream.listen("tcp", "127.0.0.1:0").Addr().String()
	tcp := stream.passed["botwired.socket"]
	wide := newManager(t)
	wide.listen("tcp", "0.0.0.0:0")
	client, err := net.Dial("tcp", at)
	no(t, err)
	defer client.Close()
	connected, err := client.(*net.TCPConn).File()
	no(t, err)
	for name, test := range map[string]struct {
		sockets map[string]*os.File
		args    []string
		want    string
	}{
		"a pipe":        {map[string]*os.File{"p": read}, nil, "no listening stream socket"},
		"datagrams":     {map[string]*os.File{"u": udp}, nil, "no listening stream socket"},
		"a connection":  {map[string]*os.File{"c": connected}, nil, "Accept=no"},
		"two":           {map[string]*os.File{"a": tcp, "b": tcp}, nil, "one ListenStream="},
		"another place": {stream.passed, []string{"--listen", "127.0.0.1:1"}, `listen = "127.0.0.1:1" (flag --listen): expected ` + at},
		"off loopback":  {wide.passed, nil, "(socket botwired.socket): expected"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t)
			m.passed = test.sockets
			c := m.begin(program, "", append([]string{"--data-dir", t.TempDir(), "--upstream", "embedded"}, test.args...)...)
			c.wantExit(time.Minute, cli.ExitError)
			if !strings.Contains(c.stderr.String(), test.want) {
				t.Errorf("it says %s, want %q", c.stderr, test.want)
			}
		})
	}
}

// A manager creates a Unix socket that every user may connect to, unless its unit says otherwise.
func testSocketForEveryUser(t *testing.T, program string) {
	m := newManager(t)
	path := filepath.Join(filepath.Dir(m.socket), "s")
	m.listen("unix", path)
	args := []string{"--data-dir", t.TempDir(), "--upstream", "embedded"}
	no(t, os.Chmod(path, 0o666))
	c := m.begin(program, "", args...)
	c.wantExit(time.Minute, cli.ExitError)
	if !strings.Contains(c.stderr.String(), "mode 0666") || !strings.Contains(c.stderr.String(), "SocketMode=") {
		t.Errorf("it says %s", c.stderr)
	}
	no(t, os.Chmod(path, 0o660))
	c = m.begin(program, "unix://"+path, args...)
	m.ready(c, 1)
	no(t, c.put("ns/key", "v"))
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
	// With PrivateTmp=, the daemon may not see the socket under its name, although others do.
	if err := os.Rename(path, path+".elsewhere"); err != nil {
		t.Errorf("the daemon has removed the manager's socket: %v", err)
	}
	c = m.begin(program, "", args...)
	c.wantExit(time.Minute, cli.ExitError)
	if !strings.Contains(c.stderr.String(), "botwired does not find the socket") {
		t.Errorf("it says %s", c.stderr)
	}
}

// The watchdog is pinged while the daemon lives, and not when the process is stopped.
func testWatchdog(t *testing.T, program string) {
	m := newManager(t, "WATCHDOG_USEC=1000000")
	address := freeAddress(t)
	// An upstream that is down does not mean that the daemon is dead.
	c := m.begin(program, address, "--listen", address, "--data-dir", t.TempDir(), "--upstream-url", "http://"+freeAddress(t), impatient)
	alive := func(n int) {
		t.Helper()
		eventually(t, func() error {
			if got := m.count("WATCHDOG=1"); got < n {
				return fmt.Errorf("%d of %d signs of life: %s", got, n, c.stderr)
			}
			return nil
		})
	}
	alive(3)
	no(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	before := m.count("WATCHDOG=1")
	time.Sleep(2 * time.Second) // the manager would have killed it by now
	if got := m.count("WATCHDOG=1"); got > before+1 {
		t.Errorf("%d signs of life of a process that stands still", got-before)
	}
	no(t, c.cmd.Process.Signal(syscall.SIGCONT))
	alive(before + 3)
}

func testSocketsAreNotForChildren(t *testing.T, program string) {
	m := newManager(t)
	m.listen("tcp", "127.0.0.1:0")
	cmd, stderr := m.command(program, "run", "--listen", freeAddress(t), "--data-dir", t.TempDir(), "--upstream", "embedded",
		"--", "/bin/sh", "-c", `env; if [ -e /dev/fd/3 ] && [ -S /dev/fd/3 ]; then echo LEAKED; fi`)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if strings.Contains(out.String(), "LISTEN_") || strings.Contains(out.String(), "LEAKED") {
		t.Errorf("the command has the sockets: %s", out.String())
	}
	if !strings.Contains(out.String(), "NOTIFY_SOCKET=") {
		t.Error("the command is the service, and cannot tell its manager")
	}
	if told := m.all(); len(told) > 0 {
		t.Errorf("the daemon beside the service speaks for it: %q", told)
	}
}
