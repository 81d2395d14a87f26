package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/drill"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
)

// The drill of the daemon in use. It spends little of the quota.
const (
	liveClients    = 2
	liveKeys       = 2
	liveOperations = 6
	// liveWrites bounds its writes upstream, those that clean up included.
	liveWrites = liveClients*liveOperations*4 + liveClients*liveKeys
	// liveSettle bounds the wait for everything to be upstream.
	liveSettle = 45 * time.Second
	// liveLinger bounds how long a write may wait for the sake of the quota: a longer wait hides
	// in liveSettle what the drill looks for.
	liveLinger = liveSettle / 10
	// liveRetryAfter is what throttled requests are told to wait.
	liveRetryAfter = time.Second
	// liveEnd is the part of a drill's time, in tenths, that the steps leave to what comes after them:
	// a write that has failed waits for its next attempt, and a throttled one for liveRetryAfter.
	liveEnd = 2
	// leftoverAfter is the age from which an entry in the drill's namespace is what a drill has
	// left that was cut off, perhaps another host's.
	leftoverAfter = time.Hour
)

// liveSteps has only what the daemon can tell one namespace and no other: upstream that
// hangs or lies would be a fault of all.
var liveSteps = []drill.Step{
	{Fault: drill.Healthy, Says: "answers"},
	{Fault: drill.Away, Says: "takes no request of the namespace"},
	{Fault: drill.Throttles, Says: "throttles the namespace, with Retry-After: 1"},
	{Fault: drill.Healthy, Says: "is back"},
}

// liveDrill drills the daemon that it is part of.
type liveDrill struct {
	engine  *upstream.Rehearsal
	daemon  *sidecar
	quotas  func() map[string]proxy.Quota
	running atomic.Bool
}

// run implements [proxy.Options.Drill]. Its clients speak to the daemon inside the process.
func (l *liveDrill) run(ctx context.Context, r proxy.DrillRequest, emit func(event any)) error {
	if !l.running.CompareAndSwap(false, true) {
		return proxy.ErrDrilling
	}
	defer l.running.Store(false)
	if err := l.check(r.Namespace); err != nil {
		return err
	}
	daemon, end := l.serve()
	defer end()
	if err := l.sweep(ctx, daemon, r.Namespace); err != nil {
		return err
	}
	_, err := drill.Run(ctx, drill.Options{
		Daemon: daemon, Upstream: &liveUpstream{l.engine, r.Namespace}, Steps: liveSteps, Namespace: r.Namespace,
		Prefix: strings.ToLower(rand.Text()[:8]) + "-", Clients: liveClients, Keys: liveKeys, Operations: liveOperations,
		StepLasts: r.Lasts * (10 - liveEnd) / 10 / time.Duration(len(liveSteps)), SettleWithin: liveSettle, CleanUp: true, Seed: r.Seed, Live: true,
		Report: func(e drill.Event) { emit(e) },
	})
	return err
}

// check fails where a drill would show nothing.
func (l *liveDrill) check(namespace string) error {
	if l.daemon.config.Load().For(namespace).WriteThrough {
		return fmt.Errorf("the namespace %s writes through: no write waits there for upstream, and there is nothing to rehearse", namespace)
	}
	if s := l.daemon.health.Report(); s.State != upstream.Up {
		return fmt.Errorf("upstream is %s: this is no drill (%s)", s.State, s.Reason)
	}
	return l.checkQuota(namespace)
}

// checkQuota fails if the drill's writes would wait for the quota: its entries could stay
// upstream for hours, and it would find fault with writes that do as they must.
func (l *liveDrill) checkQuota(namespace string) error {
	limit := l.daemon.config.Load().For(namespace).Quota.WritesPerDay
	quota, used := l.quotas()[namespace]
	if !used {
		quota.Left = limit
	}
	switch {
	case limit <= 0:
		return nil
	case quota.Left < liveWrites:
		return fmt.Errorf("the quota leaves %s of the namespace %s now, and a drill makes up to %d: "+
			"set quota.writes_per_day for it in namespaces, or wait for the next quota.period", plural(quota.Left, "write"), namespace, liveWrites)
	case quota.Linger > liveLinger:
		return fmt.Errorf("the quota has each write of the namespace %s wait %s now, and a drill is over by then: "+
			"set quota.writes_per_day for it in namespaces, or wait for the next quota.period", namespace, config.FormatDuration(quota.Linger.Round(time.Second)))
	}
	return nil
}

// serve serves callers inside the process, until end.
func (l *liveDrill) serve() (daemon *httpDaemon, end func()) {
	listener := pipe.Listen()
	server, done := newHTTPServer(l.daemon.proxy, l.daemon.logger), make(chan struct{})
	server.WriteTimeout = 0 // the drill ends by itself
	go func() {
		defer close(done)
		_ = server.Serve(listener) // always ErrServerClosed
	}()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.Dial(ctx) },
	}
	daemon = &httpDaemon{client: &http.Client{Transport: transport}}
	base := "http://localhost"
	daemon.base.Store(&base)
	return daemon, func() {
		transport.CloseIdleConnections()
		_ = server.Close() // no request is under way
		<-done
	}
}

// sweep deletes what a drill has left whose daemon has crashed.
func (l *liveDrill) sweep(ctx context.Context, daemon *httpDaemon, namespace string) error {
	rows, _, err := l.engine.List(ctx, namespace)
	if err != nil {
		return fmt.Errorf("upstream does not list %s: %w", namespace, err)
	}
	for _, row := range rows {
		if time.Since(time.Unix(int64(row.UpdatedAt), 0)) < leftoverAfter {
			continue
		}
		if _, err := daemon.Ask(ctx, http.MethodDelete, "/memory/"+namespace+"/"+row.Key, nil); err != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	return nil
}

// liveUpstream is upstream as the drill's namespace sees it.
type liveUpstream struct {
	engine    *upstream.Rehearsal
	namespace string
}

// Be has the engine fail for the namespace.
func (u *liveUpstream) Be(f drill.Fault) error {
	switch f {
	case drill.Healthy:
		u.engine.End()
	case drill.Away:
		u.engine.Fail(u.namespace, "a drill keeps this namespace from upstream", 0)
	case drill.Throttles:
		u.engine.Fail(u.namespace, "a drill throttles this namespace", liveRetryAfter)
	default:
		return fmt.Errorf("no drill of a daemon in use has an upstream that %s", f)
	}
	return nil
}

// Read asks upstream past the fault.
func (u *liveUpstream) Read(ctx context.Context, namespace, key string) (value string, found bool, err error) {
	return readDirect(ctx, u.engine.Engine, namespace, key)
}

// newLiveDrill puts itself between the daemon and its engine.
func newLiveDrill(d *sidecar, engine upstream.Engine) *liveDrill {
	return &liveDrill{engine: upstream.NewRehearsal(engine), daemon: d}
}
