package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// accountTests are the tests in TestProcess with several accounts.
var accountTests = map[string]func(*testing.T, string){
	"run and mcp beside another account's": testAnotherAccountsDaemon,
	"run as the first process":             testRunAsTheFirstProcess,
}

// The first process of a container gets the processes whose parents have ended: run waits for them, and its exit code
// is still its command's.
func testRunAsTheFirstProcess(t *testing.T, program string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a PID namespace")
	}
	b := newBesideTest(t, program)
	b.service.up()
	const orphans = 20
	script := `for i in $(seq 20); do (sh -c 'echo left' & ) ; done; read line; (true &); (true &); exit 7`
	cmd, stderr := command(t.Context(), t, program, append(append([]string{"run"}, b.settings()...), "--", "sh", "-c", script)...)
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	no(t, err)
	stdout, err := cmd.StdoutPipe()
	no(t, err)
	if err := cmd.Start(); err != nil {
		t.Skipf("no PID namespace here: %v", err)
	}
	left := 0
	for lines := bufio.NewScanner(stdout); left < orphans && lines.Scan(); left++ {
		if lines.Text() != "left" {
			t.Fatalf("the command says %q", lines.Text())
		}
	}
	eventually(t, func() error {
		n, err := zombiesOf(cmd.Process.Pid)
		if n > 0 {
			err = fmt.Errorf("%d zombies", n)
		}
		return err
	})
	no(t, stdin.Close())
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v; %d left; stderr: %s", err, left, stderr)
	}
}

// zombiesOf counts the children of a process that have ended and that it has not waited for.
func zombiesOf(parent int) (n int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", parent)) {
			n++
		}
	}
	return n, err
}

// account is one that the tests lend to processes. Its memory is its own: nothing goes upstream.
type account struct {
	t             *testing.T
	program, home string
	address       string
	id            uint32
}

func (a *account) command(args ...string) (*exec.Cmd, *safeBuffer) {
	a.t.Helper()
	cmd, stderr := command(a.t.Context(), a.t, a.program, args...)
	cmd.Env = []string{"HOME=" + a.home, "PATH=" + os.Getenv("PATH"), "BOTWIRED_LISTEN=" + a.address, "BOTWIRED_UPSTREAM_URL=embedded"}
	cmd.Dir, cmd.SysProcAttr = a.home, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.id, Gid: a.id}}
	return cmd, stderr
}

// twoAccounts returns two accounts with one address, and a program that both can run.
func twoAccounts(t *testing.T, program string) (one, other *account) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for processes of two accounts")
	}
	shared, err := os.MkdirTemp("", "accounts")
	no(t, err)
	t.Cleanup(func() { eventually(t, func() error { return os.RemoveAll(shared) }) })
	no(t, os.Chmod(shared, 0o755))
	binary, err := os.ReadFile(program)
	no(t, err)
	name := filepath.Join(shared, "botwired")
	no(t, os.WriteFile(name, binary, 0o755))
	no(t, os.Chmod(name, 0o755)) // the umask may have taken bits from the mode
	address := freeAddress(t)
	lend := func(id int) *account {
		home := filepath.Join(shared, fmt.Sprint(id))
		no(t, os.Mkdir(home, 0o700))
		no(t, os.Chown(home, id, id))
		return &account{t, name, home, address, uint32(id)}
	}
	return lend(54321), lend(54322)
}

// Whoever runs a daemon at the usual address of another account reads and changes nothing of that account, and gets
// nothing of its: run and mcp start a daemon elsewhere, which a second run finds.
func testAnotherAccountsDaemon(t *testing.T, program string) {
	one, other := twoAccounts(t, program)
	d := &child{t: t, address: one.address, client: &http.Client{Timeout: time.Minute}, exited: make(chan struct{})}
	d.cmd, d.stderr = one.command("serve")
	d.start()
	value := func() string {
		_, _, got, err := d.exchange(http.MethodGet, "/memory/n/k", http.NoBody)
		no(t, err)
		return got
	}
	if status, _, err := d.ask(http.MethodPut, "/memory/n/k", `{"value":"of the one"}`); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	first, said := other.command("run", "--", "sh", "-c", `"$0" get n k; "$0" set n k "of the other" >&2; echo up; read line`, other.program)
	stdin, err := first.StdinPipe()
	no(t, err)
	stdout, err := first.StdoutPipe()
	no(t, err)
	no(t, first.Start())
	shown, lines := "", bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "up" {
		shown += lines.Text()
	}
	wantParts(t, said.String(), "the program at "+one.address+" does not prove to be this account's botwired: using this account's, of "+other.home)
	second, saidToo := other.command("run", "--", other.program, "get", "n", "k")
	out, err := second.Output()
	if string(out) != "of the other" || err != nil {
		t.Errorf("the second run reads %q, %v: %s", out, err, saidToo)
	}
	mcp, _ := other.command("mcp")
	mcp.Stdin = strings.NewReader(strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"memory_read","arguments":{"namespace":"n","key":"k"}}}`,
	}, "\n") + "\n")
	if out, err := mcp.Output(); !strings.Contains(string(out), "of the other") || err != nil {
		t.Errorf("mcp reads %s, %v", out, err)
	}
	status, told := other.command("status")
	no(t, status.Run())
	wantParts(t, told.String(), "does not prove to be this account's botwired: using this account's")
	no(t, stdin.Close())
	_ = first.Wait() // read has found no line
	if strings.Contains(shown, "of the one") || !strings.Contains(value(), "of the one") {
		t.Errorf("the other has read %q, and the one has %s", shown, value())
	}
	status, told = other.command("status")
	no(t, status.Run())
	wantParts(t, told.String(), "its memory may be another account's")
}
