package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/botwired/botwired/internal/cli"
)

// mcpTests are the tests in TestProcess that use "botwired mcp".
var mcpTests = map[string]func(*testing.T, string){
	"mcp keeps what all clients append": testMCPKeepsAll,
	"mcp goes on when the daemon dies":  testMCPDaemonDies,
	"mcp waits for a foreign daemon":    testMCPForeignDaemon,
	"mcp starts one daemon":             testMCPStartsOne,
	"mcp answers what came before EOF":  testMCPEndOfInput,
	"mcp ends at SIGTERM":               testMCPTerm,
	"mcp by a socket, with a token":     testMCPSocketAndToken,
	"mcp refuses another upstream":      testMCPAnotherUpstream,
	"mcp without a daemon":              testMCPWithoutADaemon,
	"a client of mcp stands still":      testMCPPausedClient,
}

// The load of the append tests: clients, and writers per client.
const (
	mcpClients = 4
	mcpWriters = 20
)

func (b *besideTest) mcpCommand(ctx context.Context, flags ...string) (*exec.Cmd, *safeBuffer) {
	b.t.Helper()
	settings := b.settings(append([]string{"--flush-drain-timeout=1m"}, flags...)...)
	return command(ctx, b.t, b.program, append([]string{"mcp"}, settings...)...)
}

// mcpClient connects the SDK's client to a new "botwired mcp".
func (b *besideTest) mcpClient(flags ...string) *sdk.ClientSession {
	b.t.Helper()
	cmd, stderr := b.mcpCommand(context.WithoutCancel(b.t.Context()), flags...)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(b.t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		b.t.Fatalf("%v; stderr: %s", err, stderr)
	}
	b.t.Cleanup(func() {
		if err := session.Close(); err != nil {
			b.t.Errorf("%v; stderr: %s", err, stderr)
		}
	})
	return session
}

// callMCP returns the fields of a tool's result, or the error that the tool reports.
func callMCP(session *sdk.ClientSession, tool string, arguments map[string]any) (map[string]any, error) {
	result, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	if result.IsError {
		text, err := json.Marshal(result.Content)
		return nil, errors.Join(errors.New(string(text)), err)
	}
	out, ok := result.StructuredContent.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no structured result: %v", result)
	}
	return out, nil
}

func readMCP(session *sdk.ClientSession) (string, error) {
	out, err := callMCP(session, "memory_read", map[string]any{"namespace": "n", "key": "k"})
	if err != nil {
		return "", err
	}
	value, _ := out["value"].(string)
	return value, nil
}

// appendAll lets all clients append at once, and calls amid when some items are stored. No call fails, and each item is
// there once.
func appendAll(t *testing.T, sessions []*sdk.ClientSession, amid func()) {
	t.Helper()
	var stored atomic.Int64
	var want []string
	var writers sync.WaitGroup
	for c, session := range sessions {
		for w := range mcpWriters {
			item := fmt.Sprintf("client %d writer %d", c, w)
			want = append(want, item)
			writers.Go(func() {
				if _, err := callMCP(session, "memory_append", map[string]any{"namespace": "n", "key": "k", "value": item}); err != nil {
					t.Error(err)
				}
				if stored.Add(1) == mcpWriters && amid != nil {
					amid()
				}
			})
		}
	}
	writers.Wait()
	value, err := readMCP(sessions[0])
	no(t, err)
	got := strings.Split(value, "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d are kept, each once: %q", len(got), len(want), got)
	}
}

func (b *besideTest) mcpClients() (sessions []*sdk.ClientSession) {
	b.t.Helper()
	for range mcpClients {
		sessions = append(sessions, b.mcpClient())
	}
	return sessions
}

// Four clients with twenty writers each share one value, and upstream gets it.
func testMCPKeepsAll(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	sessions := b.mcpClients()
	appendAll(t, sessions, nil)
	for _, session := range sessions {
		no(t, session.Close())
	}
	b.awaitNoDaemon()
	if value, err := b.service.value("n/k"); len(strings.Split(value, "\n")) != mcpClients*mcpWriters || err != nil {
		t.Errorf("upstream holds %q, %v", value, err)
	}
}

// killDaemon kills the daemon of a data directory with SIGKILL, which is like a power cut for it.
func killDaemon(t *testing.T, dir string) {
	t.Helper()
	pid, err := lockHolder(filepath.Join(dir, "journal", "LOCK"))
	if err != nil || pid <= 0 {
		t.Errorf("nobody holds the journal: %d, %v", pid, err)
		return
	}
	daemon, err := os.FindProcess(pid)
	if err == nil {
		err = daemon.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}

// The clients' daemon is killed during their writes: one client starts it again. Each client has found
// it ready before: the one that has started it ends if it dies before that, and says so.
func testMCPDaemonDies(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	sessions := b.mcpClients()
	for _, session := range sessions {
		_, err := readMCP(session)
		no(t, err)
	}
	appendAll(t, sessions, func() { killDaemon(t, b.dir) })
}

// The clients do not restart a daemon that somebody else started, and their calls wait until it is
// back.
func testMCPForeignDaemon(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	daemon := startChild(t, program, b.dir, b.address, b.service.url())
	appendAll(t, b.mcpClients(), func() {
		daemon.kill()
		daemon = startChild(t, program, b.dir, b.address, b.service.url())
	})
	if _, err := os.Stat(filepath.Join(b.dir, "run.log")); !os.IsNotExist(err) {
		t.Errorf("a client has started a daemon of its own: %v", err)
	}
}

// If several clients find no daemon, one starts it, and all answer.
func testMCPStartsOne(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	var clients sync.WaitGroup
	for i := range mcpClients {
		cmd, stderr := b.mcpCommand(t.Context())
		cmd.Stdin = strings.NewReader(piped(map[string]any{"namespace": "n", "key": "k", "value": fmt.Sprint(i)}))
		clients.Go(func() {
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), `"state":"pending"`) {
				t.Errorf("%v: %s; stderr: %s", err, out, stderr)
			}
			if text := stderr.String(); text != "" {
				t.Errorf("on stderr: %s", text)
			}
		})
	}
	clients.Wait()
	b.awaitNoDaemon()
	if value, err := b.service.value("n/k"); len(value) != 2*mcpClients-1 || err != nil {
		t.Errorf("upstream holds %q, %v", value, err)
	}
}

// piped returns the input of a script that appends once.
func piped(arguments map[string]any) string {
	call, _ := json.Marshal(map[string]any{ // strings always encode
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "memory_append", "arguments": arguments},
	})
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
` + string(call) + "\n"
}

// A client that closes stdin during its call still gets the answer, in JSON-RPC and nothing else.
func testMCPEndOfInput(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	cmd, stderr := b.mcpCommand(t.Context())
	cmd.Stdin = strings.NewReader(piped(map[string]any{"namespace": "n", "key": "k", "value": "v"}))
	out, err := cmd.Output()
	no(t, err)
	answered := map[string]bool{}
	for text := range strings.Lines(string(out)) {
		var answer struct {
			Version string `json:"jsonrpc"`
			ID      any
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Version != "2.0" {
			t.Errorf("on stdout: %q, %v", text, err)
		}
		answered[fmt.Sprint(answer.ID)] = true
	}
	if !answered["0"] || !answered["1"] {
		t.Errorf("there is no answer to a request: %s; stderr: %s", out, stderr)
	}
	if value, err := b.service.value("n/k"); value != "v" || err != nil {
		t.Errorf("upstream holds %q, %v", value, err)
	}
}

// startedMCP is a hand-written client.
type startedMCP struct {
	*child
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func (b *besideTest) startMCP(flags ...string) *startedMCP {
	b.t.Helper()
	m := &startedMCP{child: prepareChild(b.t, b.program, b.dir, b.address, b.service.url())}
	m.cmd, m.stderr = b.mcpCommand(b.t.Context(), flags...)
	stdin, err := m.cmd.StdinPipe()
	no(b.t, err)
	reader, writer, err := os.Pipe() // Wait does not wait for its reader
	no(b.t, err)
	b.t.Cleanup(func() { _ = reader.Close() })
	m.cmd.Stdout, m.stdin, m.stdout = writer, stdin, bufio.NewReader(reader)
	m.begin()
	no(b.t, writer.Close())
	return m
}

// answer waits for the answer to a request.
func (m *startedMCP) answer(id string) string {
	m.t.Helper()
	for {
		text, err := m.stdout.ReadString('\n')
		if err != nil {
			m.t.Fatalf("%v; stderr: %s", err, m.stderr)
		}
		if strings.Contains(text, `"id":`+id+`,`) {
			return text
		}
	}
}

// A signal ends it as closing stdin does: acknowledged writes go upstream.
func testMCPTerm(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	m := b.startMCP("--flush-linger=5s")
	_, err := io.WriteString(m.stdin, piped(map[string]any{"namespace": "n", "key": "k", "value": "v"}))
	no(t, err)
	wantParts(t, m.answer("1"), `"state":"pending"`)
	m.signal(syscall.SIGTERM)
	m.wantExit(2*time.Minute, cli.ExitOK)
	if value, err := b.service.value("n/k"); value != "v" || err != nil {
		t.Errorf("upstream holds %q, %v", value, err)
	}
	b.awaitNoDaemon()
}

// A client that reads nothing does not block others.
func testMCPPausedClient(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	paused, other := b.startMCP(), b.mcpClient()
	_, err := callMCP(other, "memory_write", map[string]any{"namespace": "n", "key": "k", "value": strings.Repeat("x", 100_000)})
	no(t, err)
	_, err = io.WriteString(paused.stdin, piped(map[string]any{"namespace": "n", "key": "other", "value": "v"}))
	no(t, err)
	paused.answer("1") // so that the daemon knows the client
	for id := range 20 {
		_, err = fmt.Fprintf(paused.stdin, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"memory_read","arguments":{"namespace":"n","key":"k"}}}`+"\n", 10+id)
		no(t, err)
	}
	if value, err := readMCP(other); value == "" || strings.Trim(value, "x") != "" || err != nil { // as much as fits an answer
		t.Errorf("%d characters, %v", len(value), err)
	}
	paused.answer("29") // nothing is lost
}

func testMCPSocketAndToken(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	file := filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	dir, err := os.MkdirTemp("", "bw") // a socket's path must be short
	no(t, err)
	t.Cleanup(func() { no(t, os.RemoveAll(dir)) })
	session := b.mcpClient("--listen=unix://"+filepath.Join(dir, "s"), "--auth-token-file", file, "--namespace=n", "--read-only")
	if _, err := callMCP(session, "memory_read", map[string]any{"key": "k"}); err != nil {
		t.Error(err)
	}
	tools, err := session.ListTools(t.Context(), nil)
	no(t, err)
	for _, tool := range tools.Tools {
		if tool.Name == "memory_write" {
			t.Error("it offers to write")
		}
	}
	log, err := os.ReadFile(filepath.Join(b.dir, "run.log"))
	no(t, err)
	if strings.Contains(string(log), "s3cret") {
		t.Errorf("the token is in the log: %s", log)
	}
}

// A client configured for one upstream does not use a daemon with another.
func testMCPAnotherUpstream(t *testing.T, program string) {
	b := newBesideTest(t, program)
	startChild(t, program, b.dir, b.address, b.service.url())
	cmd, stderr := command(t.Context(), t, program, "mcp", "--listen", b.address, "--data-dir", t.TempDir(), "--upstream", "embedded")
	stdin, err := cmd.StdinPipe() // stays open: the refusal ends the client
	no(t, err)
	defer stdin.Close()
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != cli.ExitError {
		t.Errorf("it ends with %v", err)
	}
	wantParts(t, stderr.String(), `upstream.url = "embedded" (flag --upstream-url)`, b.address, "carries writes to "+b.service.url())
}

// A daemon that cannot start says why, in the client's log.
func testMCPWithoutADaemon(t *testing.T, program string) {
	b := newBesideTest(t, program)
	startChild(t, program, b.dir, freeAddress(t), b.service.url())
	cmd, stderr := b.mcpCommand(t.Context())
	stdin, err := cmd.StdinPipe()
	no(t, err)
	defer stdin.Close()
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != cli.ExitError {
		t.Errorf("it ends with %v", err)
	}
	wantParts(t, stderr.String(), "the daemon that botwired mcp has started has ended before it was ready: data_dir = ", "another botwired uses it")
	for _, bad := range []struct{ flag, want string }{
		{"--listen=127.0.0.1:0", "botwired mcp needs an address with a port"},
		{"--namespace=a b", "expected 1 to 64 characters"},
	} {
		cmd, stderr := command(t.Context(), t, program, "mcp", bad.flag)
		if err := cmd.Run(); err == nil {
			t.Errorf("%s is accepted", bad.flag)
		}
		wantParts(t, stderr.String(), bad.want)
	}
}
