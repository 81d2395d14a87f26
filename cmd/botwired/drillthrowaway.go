package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/drill"
	childprocess "github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/selfhost"
)

// The drill of a throwaway daemon.
const (
	throwawayClients = 3
	throwawayKeys    = 3
	// throwawayGap is the pause between two operations of a client.
	throwawayGap = 40 * time.Millisecond
	// throwawayEnd is the part of its time in which upstream recovers and everything settles.
	throwawayEnd = 3 // tenths
	// throwawayTimeout is the daemon's upstream.timeout, and throwawayDelay bounds the delay of
	// what upstream carries out late: within twice the delay. throwawayWindow is the daemon's
	// upstream.late_window. The rest of it is for a busy machine.
	throwawayTimeout = time.Second
	throwawayDelay   = time.Second
	throwawayWindow  = 6 * time.Second
	// throwawaySettle bounds the wait for everything to be upstream. It ends a hang.
	throwawaySettle = 2 * time.Minute
)

// throwawaySteps are the phases. Requests that nobody answers come first: the daemon may
// settle what they were about only once upstream.late_window is over.
var throwawaySteps = []drill.Step{
	{Fault: drill.Healthy, Says: "answers"},
	{Fault: drill.TimesOut, Says: "never answers; carries half of the requests out, late"},
	{Fault: drill.Cuts, Says: "cuts connections, half of the requests carried out"},
	{Fault: drill.Away, Says: "refuses connections"},
	{Fault: drill.Throttles, Says: "429 with Retry-After: 1"},
	{Fault: drill.Lies, Says: "a portal's 200, redirects, answers about another entry"},
	{Fault: drill.Away, Kills: true, Says: "refuses connections; the daemon is killed amid writes (SIGKILL)"},
	{Fault: drill.Healthy, Says: "is back"},
}

var throwawayModes = map[drill.Fault]faulty.Mode{
	drill.Healthy: faulty.Healthy, drill.TimesOut: faulty.Hangs, drill.Cuts: faulty.Cuts, drill.Away: faulty.Refuses,
	drill.Throttles: faulty.Throttles, drill.Lies: faulty.Lies,
}

// throwaway is a daemon in a child process, and an upstream in this one, in a temporary
// folder.
type throwaway struct {
	program  string
	dir      string
	memory   *selfhost.Server
	inside   *selfhost.InProcess // past the faults
	direct   *botwire.Client     // which leads there
	front    *faulty.Server
	upstream string // the address of front

	daemon *childprocess.Process
	httpDaemon
}

// drillThrowaway leaves nothing behind.
func drillThrowaway(ctx context.Context, plan *drillPlan, tell func(drill.Event)) (audit *drill.Audit, err error) {
	t := &throwaway{httpDaemon: httpDaemon{client: childprocess.NewClient()}}
	defer func() { err = errors.Join(err, t.close()) }()
	if t.program, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := t.open(ctx, plan.seed); err != nil {
		return nil, err
	}
	strangers, err := t.plant(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	step := plan.lasts * (10 - throwawayEnd) / 10 / time.Duration(len(throwawaySteps))
	return drill.Run(ctx, drill.Options{
		Daemon: t, Upstream: t, Steps: throwawaySteps, Restart: t.restart, Strangers: strangers, Namespace: "drill",
		Clients: throwawayClients, Keys: throwawayKeys, Operations: max(1, int(step/throwawayGap)), StepLasts: step,
		SettleWithin: throwawaySettle, Seed: plan.seed, Report: tell,
	})
}

// open opens the upstream.
func (t *throwaway) open(ctx context.Context, seed uint64) (err error) {
	if t.dir, err = os.MkdirTemp("", "botwired-drill"); err != nil {
		return err
	}
	if t.memory, err = selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(t.dir, databaseFile)}); err != nil {
		return err
	}
	t.inside = selfhost.ServeInProcess(t.memory)
	t.direct = botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: "localhost"}, Dial: t.inside.Dial, Timeout: time.Minute, Concurrency: 1, Headers: make(http.Header),
	})
	listen, at := faulty.Connections(ctx, faulty.OwnHost()+":0")
	t.front, err = faulty.New(faulty.Options{
		Service: t.memory.Handler(), Listen: listen, MaxDelay: throwawayDelay, Rand: rand.New(rand.NewPCG(seed, 1)),
	})
	t.upstream = at()
	return err
}

// plant gives upstream an entry for each step that the daemon knows nothing of.
func (t *throwaway) plant(ctx context.Context) (strangers []drill.Stranger, err error) {
	for i := range throwawaySteps {
		s := drill.Stranger{Namespace: fmt.Sprintf("stranger-%d", i+1), Key: "known-upstream-only", Value: "planted"}
		if err := t.direct.Put(ctx, journal.ID{Namespace: s.Namespace, Key: s.Key}, s.Value); err != nil {
			return nil, err
		}
		strangers = append(strangers, s)
	}
	return strangers, nil
}

// start starts the daemon on its directory, at a port that is free. Its times are short, so
// that a drill is.
func (t *throwaway) start(ctx context.Context) (err error) {
	t.daemon, err = childprocess.Start(ctx, t.dir, t.program,
		"serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(t.dir, "data"), "--upstream-url", "http://"+t.upstream,
		"--upstream-timeout", throwawayTimeout.String(), "--upstream-late-window", throwawayWindow.String(),
		"--flush-linger", "20ms",
		"--cache-fresh-for", "500ms", "--cache-absent-for", "500ms", "--journal-disk-reserve", "16MiB",
	)
	if err == nil {
		base := t.daemon.URL()
		t.base.Store(&base)
	}
	return err
}

// restart kills the daemon, and starts another on its directory.
func (t *throwaway) restart(ctx context.Context) error {
	if err := t.daemon.Kill(); err != nil {
		return err
	}
	return t.start(ctx)
}

func (t *throwaway) Be(f drill.Fault) error { return t.front.Be(throwawayModes[f]) }

func (t *throwaway) Read(ctx context.Context, namespace, key string) (value string, found bool, err error) {
	return readDirect(ctx, t.direct, namespace, key)
}

func (t *throwaway) close() (err error) {
	if t.daemon != nil {
		err = t.daemon.Kill()
	}
	t.client.CloseIdleConnections()
	if t.front != nil {
		err = errors.Join(err, t.front.Close())
	}
	if t.direct != nil {
		t.direct.Close()
	}
	if t.inside != nil {
		err = errors.Join(err, t.inside.Close())
	}
	if t.memory != nil {
		err = errors.Join(err, t.memory.Close())
	}
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	return err
}

// drillAgent is the User-Agent of a drill's clients.
const drillAgent = "botwired-drill"

// httpDaemon is a daemon that a drill speaks HTTP to.
type httpDaemon struct {
	client *http.Client
	base   atomic.Pointer[string]
}

// Ask implements [drill.Daemon].
func (d *httpDaemon) Ask(ctx context.Context, method, target string, body []byte) (*drill.Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, *d.base.Load()+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", drillAgent)
	resp, err := d.client.Do(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	return &drill.Answer{Status: resp.StatusCode, Header: resp.Header, Body: answer}, nil
}

// getter asks upstream for an entry.
type getter interface {
	Get(ctx context.Context, id journal.ID) (*journal.Observation, error)
}

func readDirect(ctx context.Context, from getter, namespace, key string) (value string, found bool, err error) {
	o, err := from.Get(ctx, journal.ID{Namespace: namespace, Key: key})
	if err != nil || o == nil {
		return "", false, err
	}
	return o.Value, true, nil
}
