package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/proof/supervisor"
	"github.com/botwired/botwired/upstream/natskv"
)

// stopLimit bounds how long a daemon may take to stop. It ends a hang: a busy machine is slow.
const stopLimit = 2 * time.Minute

// Options says how a daemon runs.
type Options struct {
	Program  string   // the path of bin/botwired
	Dir      string   // the daemon's own; it is made
	Upstream string   // upstream.url
	Flags    []string // further ones
	Token    string   // that it wants, as the flags say; empty if none
}

// Daemon is a running daemon. Its methods may be called concurrently.
type Daemon struct {
	*child.Process
	transport *http.Transport
	client    *api.Client
}

// Start starts a daemon, and waits until it listens.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	data := filepath.Join(o.Dir, "data")
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	args := []string{o.Program, "serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--upstream-url", o.Upstream}
	process, err := child.Start(ctx, o.Dir, append(args, o.Flags...)...)
	if err != nil {
		return nil, err
	}
	d := At(process.URL(), o.Token)
	d.Process = process
	return d, nil
}

// OverBucket are the flags of a daemon whose upstream is a bucket on three servers.
func OverBucket(bucket string) []string {
	return []string{
		"--upstream-nats-bucket", bucket, "--upstream-nats-replicas", "3",
		"--upstream-timeout", "3s", "--flush-linger", "20ms",
	}
}

// HistoryKept is how many versions of an entry MakeBucket's bucket keeps: all that NATS can.
const HistoryKept = 64

// noMarks keeps no mark.
type noMarks struct{}

func (noMarks) Load() (m natskv.Mark, err error) { return m, nil }
func (noMarks) Save(natskv.Mark) error           { return nil }

// MakeBucket makes a bucket on the three servers of a URL as upstream.url has it, as botwired does, with as many versions of an entry as it
// can keep, so that a check sees them.
func MakeBucket(ctx context.Context, url, name string) error {
	servers := strings.Split(url, ",")
	for i, server := range servers {
		servers[i] = "nats://" + strings.TrimPrefix(server, "nats://")
	}
	e, err := natskv.Open(ctx, natskv.Options{
		Servers: servers, Bucket: name, Replicas: 3, History: HistoryKept, Create: true,
		Timeout: 5 * time.Second, Host: "maker", Name: "maker", Marks: noMarks{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer e.Close()
	for !e.State().CaughtUp {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("make the bucket %s: %s: %w", name, e.State().Reason, ctx.Err())
		}
	}
	return nil
}

// Stop ends the daemon as a supervisor does: by itself, with 0.
func (d *Daemon) Stop() error {
	defer d.transport.CloseIdleConnections()
	return supervisor.Stop(d.Process, stopLimit)
}

// Resident is how many bytes of the process are in memory; 0 where the system does not say.
func (d *Daemon) Resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Pid()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kilobytes << 10
			}
		}
	}
	return 0
}
