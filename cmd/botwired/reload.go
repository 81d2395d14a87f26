package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/serverlog"
)

type reloader struct {
	load    func() (*config.Loaded, error)
	running *config.Loaded
	level   *slog.LevelVar
	sidecar *sidecar
	unit    *unit
	logger  *slog.Logger
}

// on reloads at each signal. stop ends that, and waits for a reload in progress.
func (r *reloader) on(signals <-chan os.Signal) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stopped:
				return
			case <-signals:
				r.reload()
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// reload applies the settings that a running daemon can change, and logs which other settings have
// changed. If there is any error, it changes nothing.
func (r *reloader) reload() {
	defer r.unit.reloads()()
	next, err := r.load()
	var got *config.Reloaded
	if err == nil {
		got, err = config.Reload(r.running, next)
	}
	hadToken, newToken := r.sidecar.hasToken.Load(), false
	if err == nil {
		newToken, err = r.sidecar.configure(&got.Loaded.Config)
	}
	if err != nil {
		r.logger.Error("the configuration was not reloaded, and nothing has changed", "error", err)
		return
	}
	r.running = got.Loaded
	r.level.Set(serverlog.LevelOf(got.Loaded.Config.Log))
	for _, warning := range got.Loaded.Warnings {
		r.logger.Warn(warning)
	}
	r.logger.Info("the configuration was reloaded", "changed", got.Changed, "new_token", newToken)
	switch hasToken := r.sidecar.hasToken.Load(); {
	case hadToken && !hasToken: // guard 22.24
		r.logger.Warn("callers need no token any more: auth.token_file is no longer set, and whoever reaches the listener can read and write")
	case !hadToken && hasToken:
		r.logger.Warn("callers need a token from now on: auth.token_file is set, and a request without the token in it is refused with 401")
	}
	if len(got.Restart) > 0 {
		r.logger.Warn("these settings have another value now, which counts after a restart only", "settings", got.Restart)
	}
}

// door holds the guard in force, which changes with the configuration.
type door struct {
	now    atomic.Pointer[guard.Guard]
	inside sync.Map // the requests that may be streams and are being answered, and what cancels their contexts
}

// ServeHTTP lets the guard in force answer. The request's context ends when a later guard would not let
// its caller in: a stream ends then. The memory API has no streams, and its writes end as they have begun.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/memory/") {
		d.now.Load().ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	d.inside.Store(r, cancel) // before the guard is loaded, so that replace misses no request
	defer d.inside.Delete(r)
	d.now.Load().ServeHTTP(w, r)
}

// replace puts another guard in force.
func (d *door) replace(by *guard.Guard) {
	d.now.Store(by)
	d.inside.Range(func(r, cancel any) bool {
		if !by.Admits(r.(*http.Request)) { // guard 22.26
			cancel.(context.CancelFunc)()
		}
		return true
	})
}

// Admits asks the guard in force.
func (d *door) Admits(r *http.Request) bool { return d.now.Load().Admits(r) }

// configure applies a configuration: its token, and the settings that a running daemon can change.
// newToken reports whether callers now need another token. If the token cannot be read, nothing
// changes.
func (d *sidecar) configure(c *config.Config) (newToken bool, err error) {
	token, err := c.Token()
	if err != nil {
		return false, err
	}
	newToken = token != "" && token != d.token
	d.token = token
	d.config.Store(c)
	d.hasToken.Store(token != "")
	d.requota()
	d.engine.Configure(c)
	d.door.replace(guard.New(guardOptions(c, token), d.prover.Handler(token, d.proxy)))
	if d.readmit != nil {
		d.readmit()
	}
	return newToken, nil
}
