package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// testReadme runs the README's servers one after the other, as a reader does: each has to
// start beside what the ones before it have left.
func testReadme(t *testing.T, program string) {
	at, service := freeAddress(t), freeAddress(t)
	here := t.TempDir()
	environ := []string{"HOME=" + t.TempDir(), "BOTWIRED_UPSTREAM_URL=http://127.0.0.1:1", "BOTWIRED_FLUSH_DRAIN_TIMEOUT=100ms"}
	commands := readmeServers(t)
	if len(commands) != 3 {
		t.Fatalf("the README starts %q", commands)
	}
	for _, args := range commands {
		line := strings.ReplaceAll(strings.Join(args, " "), "127.0.0.1:2690", service)
		c := &child{t: t, address: at, dir: here, exited: make(chan struct{}), client: &http.Client{Timeout: 30 * time.Second}}
		c.cmd, c.stderr = command(t.Context(), t, program, strings.Fields(line)...)
		c.cmd.Dir, c.cmd.Env = here, append(environ, "BOTWIRED_LISTEN="+at)
		if args[0] == "selfhost" {
			c.cmd.Env = append(environ, "BOTWIRED_LISTEN="+service)
			startServer(c)
			continue
		}
		c.start()
		if err := c.put("n/k", "v"); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		c.kill()
	}
}

// readmeServers returns the arguments of each "serve" and "selfhost" in a block of commands.
func readmeServers(t *testing.T) (commands [][]string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(readme), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, " #")
			args := strings.Fields(line)
			if len(args) > 1 && args[0] == "bin/botwired" && (args[1] == "serve" || args[1] == "selfhost") {
				commands = append(commands, args[1:])
			}
		}
	}
	return commands
}

// startServer is start for a memory service, which has no readyz.
func startServer(c *child) {
	c.t.Helper()
	c.begin()
	eventually(c.t, func() error {
		if strings.Contains(c.stderr.String(), "listening") {
			return nil
		}
		return errors.New("it does not listen: " + c.stderr.String())
	})
}

// testReadyProbe goes by the exit code of the binary, as a probe does.
func testReadyProbe(t *testing.T, program string) {
	c := startChild(t, program, t.TempDir(), freeAddress(t), newMemoryService(t).up().url())
	probe := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), program, append(args, "--listen", c.address)...)
		cmd.Env = []string{}
		return cmd.Run()
	}
	for _, args := range [][]string{{"status"}, {"status", "--ready"}, {"status", "--live"}} {
		if err := probe(args...); err != nil {
			t.Errorf("%v while the daemon is ready: %v", args, err)
		}
	}
	c.kill()
	for _, args := range [][]string{{"status"}, {"status", "--ready"}, {"status", "--live"}} {
		var failed *exec.ExitError
		if err := probe(args...); !errors.As(err, &failed) || failed.ExitCode() != exitError {
			t.Errorf("%v with no daemon: %v", args, err)
		}
	}
}
