package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
)

// A server logs its address, and ends with 0 when a signal stops it.
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
		if code := <-done; code != exitOK {
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
		wantFailure(t, got, exitError, `listen = "`+address+`"`, "in use")
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

// A person reads the log: no nanoseconds.
func TestLogIsReadable(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		newLogger(format == "text", slog.LevelInfo, &out).Info("said", "every", 30*time.Second, "took", 1234567891*time.Nanosecond)
		for _, part := range []string{"30s", "1.235s"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s without %s: %s", format, part, &out)
			}
		}
		if moment := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[Z+-]`); !moment.Match(out.Bytes()) {
			t.Errorf("%s: the time is not to the millisecond: %s", format, &out)
		}
	}
}

func TestLogger(t *testing.T) {
	for _, test := range []struct {
		name  string
		level slog.Level
		text  bool
	}{
		{"info", slog.LevelInfo, false},
		{"debug", slog.LevelDebug, false},
		{"error", slog.LevelError, true},
	} {
		var out bytes.Buffer
		logger := newLogger(test.text, levelOf(config.Log{Level: test.name}), &out)
		logger.Log(t.Context(), test.level-1, "too quiet")
		logger.Log(t.Context(), test.level, "loud enough")
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 || !bytes.Contains(out.Bytes(), []byte("loud enough")) {
			t.Errorf("%+v: %d lines:\n%s", test, n, out.String())
		}
		if got := json.Valid(out.Bytes()); got == test.text {
			t.Errorf("%+v: JSON is %v:\n%s", test, got, out.String())
		}
	}
}
