package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli"
)

// A server logs its address, and exits with 0 when a signal stops it.
func TestServersListenUntilToldToStop(t *testing.T) {
	newHome(t)
	socket := filepath.Join(t.TempDir(), "s")
	for _, args := range [][]string{
		{"serve", "--upstream", "embedded", "--listen", "127.0.0.1:0"},
		{"serve", "--upstream", "embedded", "--listen", "unix://" + socket},
		{"selfhost", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "m.db")},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		read, write := io.Pipe()
		done := make(chan int)
		go func() {
			done <- run(ctx, append(args, "--data-dir", t.TempDir()), io.Discard, write)
			write.Close()
		}()
		line, err := bufio.NewReader(read).ReadBytes('\n')
		if err != nil {
			t.Fatalf("%v: no log: %v", args, err)
		}
		var record struct{ Msg, Address string }
		if err := json.Unmarshal(line, &record); err != nil || record.Msg != "listening" {
			t.Errorf("%v: log %s (%v)", args, line, err)
		}
		go func() { _, _ = io.Copy(io.Discard, read) }()
		cancel()
		if code := <-done; code != cli.ExitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

func TestListenerThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, command := range []string{"serve", "selfhost"} {
		got := botwired(t, command, "--listen", address)
		wantFailure(t, got, cli.ExitError, `listen = "`+address+`"`, "in use")
	}
}

func TestSelfhostHasItsOwnDefaults(t *testing.T) {
	environ := []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()}
	loaded, err := config.Load(config.Sources{Environ: environ, Defaults: selfhostDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Config.Listen != "127.0.0.1:2690" || loaded.Config.Embedded.Latency != 0 {
		t.Errorf("listen %s, latency %s", loaded.Config.Listen, loaded.Config.Embedded.Latency)
	}
}
