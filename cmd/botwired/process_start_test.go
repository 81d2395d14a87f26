package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/cli"
)

// failing runs a command that must fail with one line.
func failing(t *testing.T, program string, args []string, code int, parts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, stderr := command(ctx, t, program, args...)
	_ = cmd.Run() // the test checks the exit code
	wantFailure(t, outcome{cmd.ProcessState.ExitCode(), "", stderr.String()}, code, parts...)
}

// withinTwoSeconds checks that do takes less than two seconds, and tries again if not, since the
// machine may be busy. Busy machines get more time: a multiple of what a process takes that does
// nothing.
func withinTwoSeconds(t *testing.T, program string, do func()) {
	t.Helper()
	for try := 1; ; try++ {
		began := time.Now()
		do()
		took := time.Since(began)
		if took <= 2*time.Second {
			return
		}
		began = time.Now()
		idle, _ := command(t.Context(), t, program, "version")
		no(t, idle.Run())
		slack := 10 * time.Since(began)
		if took <= 2*time.Second+slack {
			return
		}
		if try == 5 {
			t.Fatalf("it took %s, with %s for a busy machine", took, slack)
		}
	}
}

// tree lists the names, sizes and times of the files in a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// contract 20: only one daemon uses a data directory.
func testOneDaemon(t *testing.T, program string) {
	service, dir := newMemoryService(t), t.TempDir()
	c := startChild(t, program, dir, freeAddress(t), service.url())
	if err := c.put("n/k", "v"); err != nil {
		t.Fatal(err)
	}
	before := names(tree(t, dir))
	second := []string{"serve", "--listen", freeAddress(t), "--data-dir", dir, "--upstream-url", service.url()}
	withinTwoSeconds(t, program, func() {
		failing(t, program, second, cli.ExitError, "data_dir", dir, "another botwired uses it")
	})
	if diff := cmp.Diff(before, names(tree(t, dir))); diff != "" {
		t.Errorf("it touched the directory (-before +after):\n%s", diff)
	}
	if got, err := c.value("n/k"); err != nil || got != "v" {
		t.Errorf("the first one answers %q, %v", got, err)
	}
	c.kill() // its lock file stays
	again := startChild(t, program, dir, freeAddress(t), service.url())
	if got, err := again.value("n/k"); err != nil || got != "v" {
		t.Errorf("the next one answers %q, %v", got, err)
	}
}

// names drops what the first daemon itself changes: its files grow.
func names(tree map[string]string) map[string]bool {
	set := make(map[string]bool)
	for name := range tree {
		set[name] = true
	}
	return set
}

func testBusyAddress(t *testing.T, program string) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address, dir := listener.Addr().String(), filepath.Join(t.TempDir(), "data")
	failing(t, program, []string{"serve", "--listen", address, "--data-dir", dir, "--upstream-url", "embedded"},
		cli.ExitError, address, "listen")
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
	failing(t, program, []string{"selfhost", "--listen", address, "--db", filepath.Join(dir, "memory.db")},
		cli.ExitError, address, "listen")
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the database's directory was made: %v", err)
	}
}

func testUnusableDirectory(t *testing.T, program string) {
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		failing(t, program, []string{"serve", "--listen", freeAddress(t), "--data-dir", dir, "--upstream-url", "embedded"},
			cli.ExitError, "data_dir", dir, "not a directory")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func testMalformedSetting(t *testing.T, program string) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"--flush-linger", "soon"}, {"--upstream-url", "ftp://example"}, {"--listen", "nowhere"}, {"--cache-memory", "-1"},
	} {
		failing(t, program, append([]string{"serve", "--data-dir", dir}, args...), cli.ExitError, args[1])
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// A data directory belongs to one upstream: its pending writes and copies do not reach another, unless
// the configuration says that the two are the same.
func testAnotherUpstream(t *testing.T, program string) {
	dir, old, other := t.TempDir(), newMemoryService(t), newMemoryService(t).up()
	c := startChild(t, program, dir, freeAddress(t), old.url())
	if err := c.put("n/k", "v"); err != nil {
		t.Fatal(err)
	}
	c.kill()
	serve := []string{"serve", "--listen", freeAddress(t), "--data-dir", dir, "--upstream-url", other.url()}
	failing(t, program, serve, cli.ExitError, "data_dir", dir, "1 pending write,", old.url(), other.url(), "botwired recover --data-dir "+dir, "--moved-from "+old.url())
	if t.Failed() {
		return // the rest would fail slowly
	}
	if err := os.Remove(filepath.Join(dir, "journal", "MARK")); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := command(t.Context(), t, program, "recover", "--data-dir", dir)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != cli.ExitMissing {
		t.Fatalf("recover: %v %s", err, stderr)
	}
	failing(t, program, serve, cli.ExitError, "1 pending write,") // a recovered journal belongs to the same upstream
	if n := other.putsOf("n/k"); n != 0 {
		t.Errorf("the other upstream was sent %d writes", n)
	}
	cmd, stderr = command(t.Context(), t, program, "recover", "--data-dir", dir, "--upstream-url", other.url(), "--moved-from", old.url())
	if err := cmd.Run(); err != nil {
		t.Fatalf("recover: %v %s", err, stderr)
	}
	moved := startChild(t, program, dir, freeAddress(t), other.url())
	eventually(t, func() error { _, err := other.value("n/k"); return err })
	moved.kill()
	failing(t, program, []string{"serve", "--listen", freeAddress(t), "--data-dir", dir, "--upstream-url", old.url()},
		cli.ExitError, old.url(), other.url(), "copies of its entries")
	again := startChild(t, program, dir, freeAddress(t), other.url())
	if got, err := again.value("n/k"); err != nil || got != "v" {
		t.Errorf("it answers %q, %v", got, err)
	}
}

func testStaleSocket(t *testing.T, program string) {
	// A socket's path must be short.
	home, err := os.MkdirTemp("", "botwired")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	socket, dir, service := filepath.Join(home, "s"), t.TempDir(), newMemoryService(t)
	c := startChild(t, program, dir, "unix://"+socket, service.url())
	if err := c.put("n/k", "v"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	failing(t, program, []string{"serve", "--listen", "unix://" + socket, "--data-dir", t.TempDir(), "--upstream-url", service.url()},
		cli.ExitError, socket, "listen") // the other daemon is alive
	c.kill()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("the kill left no socket behind: %v", err)
	}
	again := startChild(t, program, dir, "unix://"+socket, service.url())
	if got, err := again.value("n/k"); err != nil || got != "v" {
		t.Errorf("it answers %q, %v", got, err)
	}
	again.kill()
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	failing(t, program, []string{"serve", "--listen", "unix://" + socket, "--data-dir", dir, "--upstream-url", service.url()},
		cli.ExitError, socket)
	if text, err := os.ReadFile(socket); err != nil || !strings.Contains(string(text), "mine") {
		t.Errorf("a file that is no socket was taken for a stale one: %q, %v", text, err)
	}
}

// The loss of a journal is logged; a new directory is not a loss.
func testJournalGone(t *testing.T, program string) {
	service, dir := newMemoryService(t).up(), t.TempDir()
	for _, clear := range []func(string) error{
		func(string) error { return nil }, // there was none yet
		os.RemoveAll,
		func(journal string) error { return errors.Join(os.RemoveAll(journal), os.Mkdir(journal, 0o700)) },
		func(string) error { return nil },
	} {
		journal := filepath.Join(dir, "journal")
		_, before := os.Stat(journal)
		no(t, clear(journal))
		names, _ := os.ReadDir(journal) // none if the directory does not exist
		want := before == nil && len(names) == 0
		c := startChild(t, program, dir, freeAddress(t), service.url())
		c.signal(syscall.SIGTERM)
		c.wantExit(time.Minute, cli.ExitOK)
		if got := strings.Contains(c.stderr.String(), "its journal is gone"); got != want {
			t.Errorf("it said that the journal is gone: %v, want %v: %s", got, want, c.stderr)
		}
	}
}

// Only their owner may read and write the daemon's files, under any umask.
func testFilesArePrivate(t *testing.T, program string) {
	dir := t.TempDir() // others may enter it, and it holds a file of another program
	no(t, os.Chmod(dir, 0o755))
	no(t, os.WriteFile(filepath.Join(dir, "somebody's"), nil, 0o600))
	c := prepareChild(t, program, dir, freeAddress(t), newMemoryService(t).up().url(), "--quota-writes-per-day", "9")
	c.cmd.Args = append([]string{"sh", "-c", `umask 0; exec "$0" "$@"`, c.cmd.Path}, c.cmd.Args[1:]...)
	c.cmd.Path = "/bin/sh"
	c.start()
	no(t, c.put("n/k", "v"))
	if status, _, err := c.ask(http.MethodPost, "/_botwired/flush?timeout=20s", ""); err != nil || status != http.StatusOK {
		t.Fatalf("flush: %d, %v", status, err)
	}
	c.kill()
	manifests, err := filepath.Glob(filepath.Join(dir, "journal", "MANIFEST-*"))
	no(t, err)
	for _, name := range manifests {
		no(t, os.Remove(name))
	}
	recovery, output := command(t.Context(), t, program)
	recovery.Path, recovery.Args = "/bin/sh", []string{"sh", "-c", `umask 0; exec "$0" recover --data-dir "$1"`, program, dir}
	_ = recovery.Run() // the copy shows that it has recovered
	var seen []string
	no(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", name, info.Mode())
		}
		seen = append(seen, filepath.Base(name))
		return err
	}))
	isCopy := func(name string) bool { return strings.HasPrefix(name, "journal.damaged-") }
	if !slices.Contains(seen, quotaFile) || !slices.ContainsFunc(seen, isCopy) {
		t.Errorf("there is no %s, or no copy of the damaged journal: %q, %s", quotaFile, seen, output)
	}
}

// A cleaner of old logs takes the journal's log of an idle daemon: the daemon ends, and the next one has every write.
func testLogRemoved(t *testing.T, program string) {
	service := newMemoryService(t)
	address, dir := freeAddress(t), filepath.Join(t.TempDir(), "data")
	c := startChild(t, program, dir, address, service.url())
	no(t, c.put("n/k", "v"))
	logs, err := filepath.Glob(filepath.Join(dir, journalDir, "*.log"))
	no(t, err)
	for _, log := range logs {
		no(t, os.Remove(log))
	}
	c.wantExit(time.Minute, cli.ExitError)
	if line := "another program has removed, renamed or cut the log"; !strings.Contains(c.stderr.String(), line) {
		t.Errorf("stderr lacks %q: %s", line, c.stderr)
	}
	c = startChild(t, program, dir, address, service.url())
	if got, err := c.value("n/k"); got != "v" || err != nil {
		t.Errorf("the value is %q, %v", got, err)
	}
}
