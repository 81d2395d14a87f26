package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/proof/canary"
)

// processTests are the tests of TestProcess, except the other groups.
var processTests = map[string]func(*testing.T, string){
	"killed under write load":        testKilledUnderLoad,
	"receipts through kills":         testReceiptsThroughKills,
	"events and monitor":             testEventsAndMonitor,
	"coalesces writes to one key":    testCoalesces,
	"writes wait for upstream":       testWritesWait,
	"drill":                          testDrill,
	"the budget bounds memory":       testPendingMemory,
	"prefer wait":                    testPreferWait,
	"SIGTERM drains":                 testTermDrains,
	"SIGTERM keeps what it must":     testTermKeeps,
	"SIGTERM serves while it drains": testTermServes,
	"second signal":                  testSecondSignal,
	"one daemon a directory":         testOneDaemon,
	"busy address":                   testBusyAddress,
	"unusable directory":             testUnusableDirectory,
	"malformed setting":              testMalformedSetting,
	"another upstream":               testAnotherUpstream,
	"stale socket":                   testStaleSocket,
	"foreign host and origin":        testForeign,
	"oversized bodies":               testOversized,
	"slow headers":                   testSlowHeaders,
	"no CORS header":                 testNoCORS,
	"values stay out of the log":     testValuesStayOut,
	"OPTIONS asterisk names a host":  testAsterisk,
	"a caller of the closed journal": testFlushAtShutdown,
	"SIGHUP reloads":                 testReload,
	"writes through":                 testWritesThrough,
	"begins in an outage":            testBeginsInAnOutage,
	"pending writes by hand":         testPendingByHand,
	"a bad reload changes nothing":   testBadReload,
	"the journal is gone":            testJournalGone,
	"the log is removed":             testLogRemoved,
	"SIGHUP tells who gets in":       testReloadOfWhetherATokenIsNeeded,
	"files are private":              testFilesArePrivate,
	"SIGHUP ends streams":            testReloadEndsStreams,
	"SIGHUP opens no listener":       testReloadKeepsTheTokenOffLoopback,
	"the log's reader goes away":     testLogReaderGone,
	"the log's reader stops":         testLogReaderStops,
	"the log's reader stays away":    testLogReaderNeverBack,
	"one IPv4 address":               testListensOnIPv4,
	"its own address as upstream":    testOwnAddress,
	"a way back to itself":           testLoop,
	"two that are each other's":      testLoopOfTwo,
	"a chain of two":                 testChain,
	"a full journal says so":         testFullJournalIsTold,
	"a full namespace":               testNamespaceFull,
	"probes":                         testReadyProbe,
	"run keeps what is pending":      testRunKeepsPending,
	"run uses a daemon":              testRunUsesADaemon,
	"run refuses another upstream":   testRunRefusesAnotherUpstream,
	"run passes signals on":          testRunPassesSignalsOn,
	"run finds no command":           testRunFindsNoCommand,
	"two runs share a daemon":        testTwoRunsShareADaemon,
	"runs start at once":             testRunsStartAtOnce,
	"run is killed":                  testRunIsKilled,
	"run starts its daemon again":    testRunStartsItsDaemonAgain,
	"run tries until it starts":      testRunTriesUntilItsDaemonStarts,
	"run starts no daemon":           testRunWithoutADaemon,
	"run with a token":               testRunWithAToken,
	"purge":                          testPurge,
	"sealed":                         testSealed,
	"seal commands":                  testSealCommands,
}

// TestProcess runs the real program as a child process, in front of a memory service that it can stop.
// The tests share one build and run in parallel.
func TestProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it")
	}
	if *sealing {
		sealAll(t)
	}
	program := filepath.Join(t.TempDir(), "botwired")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	tests := maps.Clone(processTests)
	maps.Copy(tests, copiesTests)
	maps.Copy(tests, terminalTests)
	maps.Copy(tests, serviceTests)
	maps.Copy(tests, mcpTests)
	maps.Copy(tests, accountTests)
	if *sealing {
		delete(tests, "sealed") // they seal by themselves
		delete(tests, "seal commands")
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

// child is a botwired process.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	dir     string
	client  *http.Client
	stderr  *safeBuffer
	exited  chan struct{}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// command returns a botwired command without this machine's configuration, and with short times.
func command(ctx context.Context, t *testing.T, program string, args ...string) (*exec.Cmd, *safeBuffer) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + homeOf(t), "GOTRACEBACK=single"}
	if keys != nil {
		cmd.Env = append(cmd.Env, keys.environment(args)...)
	}
	stderr := &safeBuffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// homeOf returns the home of all commands of a test: they are of one account.
func homeOf(t *testing.T) string { return filepath.Dir(t.TempDir()) }

// impatient is for a daemon whose upstream does not answer: a read of an unknown entry fails soon.
const impatient = "--upstream-timeout=2s"

// startChild runs a daemon and waits until it answers.
func startChild(t *testing.T, program, dir, address, upstream string, args ...string) *child {
	t.Helper()
	c := prepareChild(t, program, dir, address, upstream, args...)
	c.start()
	return c
}

func prepareChild(t *testing.T, program, dir, address, upstream string, args ...string) *child {
	t.Helper()
	args = append([]string{
		"serve", "--listen", address, "--data-dir", dir, "--upstream-url", upstream,
		"--upstream-late-window", "500ms",
	}, args...)
	c := &child{t: t, address: address, dir: dir, exited: make(chan struct{})}
	c.cmd, c.stderr = command(t.Context(), t, program, args...)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if socket, ok := strings.CutPrefix(address, "unix://"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	c.client = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	return c
}

func (c *child) start() {
	c.t.Helper()
	c.begin()
	c.awaitReady()
}

// begin starts the process and does not wait.
func (c *child) begin() {
	c.t.Helper()
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // its outcome is in ProcessState
	}()
	c.t.Cleanup(c.kill)
}

func (c *child) awaitReady() {
	c.t.Helper()
	eventually(c.t, func() error {
		select {
		case <-c.exited:
			c.t.Fatalf("it ended: %s", c.stderr)
		default:
		}
		status, _, err := c.ask(http.MethodGet, "/_botwired/readyz", "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("not ready: %d %w", status, err)
		}
		return nil
	})
}

// eventually retries until try succeeds, with enough time for a busy machine.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	end := time.Now().Add(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		<-tick.C
	}
}

// kill ends the process with SIGKILL, which is like a power cut for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.exited
	c.client.CloseIdleConnections()
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) wantExit(within time.Duration, code int) {
	c.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(within):
		c.t.Fatalf("it did not end within %s: %s", within, c.stderr)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("exit code %d, want %d: %s", got, code, c.stderr)
	}
}

func (c *child) url(target string) string {
	if strings.HasPrefix(c.address, "unix://") {
		return "http://localhost" + target
	}
	return "http://" + c.address + target
}

// ask sends one request; headers are names and values in turn.
func (c *child) ask(method, target, body string, headers ...string) (int, http.Header, error) {
	status, header, _, err := c.exchange(method, target, strings.NewReader(body), headers...)
	return status, header, err
}

func (c *child) exchange(method, target string, body io.Reader, headers ...string) (int, http.Header, string, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, c.url(target), body)
	if err != nil {
		return 0, nil, "", err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), errors.Join(err, resp.Body.Close())
}

func (c *child) put(key, value string) error {
	status, _, text, err := c.exchange(http.MethodPut, "/memory/"+key, strings.NewReader(`{"value":"`+value+`"}`))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("put of %s: %d %s", key, status, text)
	}
	return err
}

// value returns an entry's value from any service with BotWire's API.
func (c *child) value(key string) (string, error) {
	status, _, text, err := c.exchange(http.MethodGet, "/memory/"+key, nil)
	return valueOf(key, status, text, err)
}

func valueOf(key string, status int, text string, err error) (string, error) {
	var doc struct{ Value string }
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", key, status, text)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &doc)
	}
	return doc.Value, err
}

func (c *child) pending() (int, error) {
	_, _, text, err := c.exchange(http.MethodGet, "/_botwired/status", nil)
	var doc struct{ Pending int }
	if err == nil {
		err = json.Unmarshal([]byte(text), &doc)
	}
	return doc.Pending, err
}

// memoryService is BotWire's memory service in this process. It can stop listening.
type memoryService struct {
	t       *testing.T
	address string
	handler http.Handler
	server  *http.Server
	watch   *canary.Watch // reads what comes, unless it is nil

	mu   sync.Mutex
	puts map[string]int // requests per entry
}

func newMemoryService(t *testing.T) *memoryService {
	t.Helper()
	store, err := selfhost.Open(t.Context(), selfhost.Options{Path: filepath.Join(t.TempDir(), "memory.db")})
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryService{t: t, address: freeAddress(t), puts: make(map[string]int)}
	if keys != nil {
		m.watch = keys.watch
	}
	m.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			m.mu.Lock()
			m.puts[strings.TrimPrefix(r.URL.Path, "/memory/")]++
			m.mu.Unlock()
		}
		for _, name := range []string{"Origin", "Methods", "Headers", "Expose-Headers"} {
			w.Header().Set("Access-Control-Allow-"+name, "*") // as BotWire does
		}
		w.Header().Set("Access-Control-Expose-Headers", "*")
		store.Handler().ServeHTTP(w, r)
	})
	t.Cleanup(func() {
		m.down()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *memoryService) url() string { return "http://" + m.address }

// up starts listening; before that, connections are refused. A program that another test is just starting has the
// socket of the last time for a moment, until it runs.
func (m *memoryService) up() *memoryService {
	m.t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", m.address)
	for errors.Is(err, syscall.EADDRINUSE) && m.t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
		listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", m.address)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	if m.watch != nil {
		listener = m.watch.Listener(listener)
	}
	m.server = &http.Server{Handler: m.handler, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(listener) }(m.server) // ends with down
	return m
}

func (m *memoryService) down() {
	if m.server != nil {
		_ = m.server.Close() // cuts requests in progress
	}
	m.server = nil
}

// value asks the service directly.
func (m *memoryService) value(key string) (string, error) {
	value, err := m.do(http.MethodGet, hidden(key), "")
	return unsealed(key, value), err
}

// put writes as another host does, past all daemons.
func (m *memoryService) put(key, value string) error {
	body, err := json.Marshal(map[string]string{"value": sealedBy("theirs", key, value)})
	if err == nil {
		_, err = m.do(http.MethodPut, hidden(key), string(body))
	}
	return err
}

func (m *memoryService) do(method, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, m.url()+"/memory/"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return valueOf(path, resp.StatusCode, string(text), errors.Join(err, resp.Body.Close()))
}

func (m *memoryService) putsOf(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.puts[hidden(key)]
}

// freeAddress returns a loopback address where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	return closedAddress(t)
}

// terminated is the exit code of a process that a signal ended.
const terminated = -1
