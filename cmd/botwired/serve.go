package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/httplog"
	"github.com/botwired/botwired/internal/listen"
	"github.com/botwired/botwired/internal/serverlog"
	"github.com/botwired/botwired/internal/service"
	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream/flush"
)

// callersGrace is how long requests in progress may take after the listener is closed. With a short
// flush.drain_timeout, they get 1/callersShare of it. Callers barely notice a drain shorter than
// shortDrain.
const (
	callersGrace = 2 * time.Second
	callersShare = 4
	shortDrain   = 200 * time.Millisecond
)

// If the listener outlives the daemon, callers connect to the next daemon instead of being refused. So
// no present caller may be cut off either. Each open connection has at least idleGrace to get a last
// answer, which says that the connection ends. Requests in progress may wait for upstream for
// waitsGrace more, or half of the time left.
const (
	idleGrace  = 500 * time.Millisecond
	waitsGrace = time.Second
)

func newServeCommand(p *cli.Program, settings *cli.Settings, manager *service.Inherited) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the daemon",
		GroupID: cli.GroupDaily,
		Example: "  botwired serve\n" +
			"  botwired serve --upstream embedded --data-dir .run   # without a network",
		Long: "Run the daemon until SIGTERM or SIGINT. It then flushes for up to flush.drain_timeout; a second\n" +
			"signal ends it at once. At SIGHUP it reads its configuration anew, and logs what has changed\n" +
			"and what waits for a restart.",
		Args: cli.NoArguments,
	}
	settings.Takes(cmd, cli.AllSettings()...)
	cli.HideSettings(cmd, "config", "listen", "data_dir", "upstream.url", "auth.token_file", "cache.memory", "journal.max_bytes",
		"flush.drain_timeout", "quota.writes_per_day", "namespaces", "log.level")
	unused := cmd.Flags().Bool(cli.UnusedFlag, false, "end when no botwired run or botwired mcp uses the daemon any more")
	cmd.Flags().Lookup(cli.UnusedFlag).Hidden = true // botwired run and botwired mcp give it
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keepFilesPrivate() // guard 21.11
		return serve(cmd.Context(), settings.LoadWithSocket, *unused, p, manager)
	}
	return cmd
}

// serve runs the daemon until ctx ends. It then stops the parts in the order in which requests flow:
// callers, flusher, journal (contract 22). At SIGHUP it reloads the configuration. With unused it also
// ends when nobody uses it: see [attach.UntilUnused].
func serve(ctx context.Context, load func(config.Socket) (*config.Loaded, error), unused bool, p *cli.Program, manager *service.Inherited) (err error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // guard 22.20
	defer signal.Stop(hangups)
	in, err := inherit(manager)
	if err != nil {
		return err
	}
	loadHere := func() (*config.Loaded, error) {
		loaded, err := load(in.socket) // the manager's socket, if any, sets the listen address
		if err == nil {
			err = in.admits(loaded)
		}
		return loaded, err
	}
	loaded, err := loadHere()
	if err != nil {
		return errors.Join(err, in.close())
	}
	c, level := &loaded.Config, new(slog.LevelVar)
	logger := beginLog(loaded, level, p)
	in.notifier = in.manager.Notifier(logger)
	if err := in.manager.Complaint; err != nil {
		logger.Warn("the service manager gets no signs of life: its variables make no sense", "error", err)
	}
	listener, outlives, err := in.listen(ctx, loaded)
	if err != nil {
		return err
	}
	if err := listen.RefuseOwnAddress(ctx, c, listener); err != nil { // guard 13.25
		return errors.Join(err, listener.Close())
	}
	connections := connectionBound(openFilesLimit(), c.Upstream.Concurrency, logger)
	d := &sidecar{logger: logger, chain: via.New(), outlived: outlives, waiters: connections / waitersShare,
		prover: attach.NewProver(loaded)}
	d.config.Store(c)
	if _, socket := c.Socket(); !socket {
		d.address = listener.Addr().String()
	}
	if unused {
		var stop func() error
		if ctx, d.drained, stop, err = attach.UntilUnused(ctx, c.DataDir, cmp.Or(d.address, c.Listen), logger); err != nil {
			return errors.Join(fmt.Errorf("data_dir = %q: %w", c.DataDir, err), listener.Close())
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	server := fastpath.New(listener, fastpath.Options{
		HTTP: newHTTPServer(d.chain.Guard(&d.door), logger), Admits: d.door.Admits, Answer: d.answerSimple, Logger: logger,
		BodyMatters: proxy.BodyMatters,
		MaxConns:    connections,
	})
	d.readmit, d.endConnections = server.Readmit, server.EndConnections
	unit, endUnit := newUnit(ctx, in, d, listener, server.Crowded)
	defer endUnit()
	announce := sync.OnceFunc(func() {
		logger.Info("listening", "address", listener.Addr().String(), "upstream", c.Upstream.URL, "data_dir", c.DataDir,
			"version", build.Version())
		if d.address != "" && c.Auth.TokenFile == "" {
			logger.Info("every account of this machine can read and write this memory: auth.token_file closes the port to the others, and a Unix socket has no port")
		}
	})
	serve := sync.OnceValue(func() error { announce(); return server.Serve() })
	early := func() { go func() { _ = serve() }() } // run gets its error
	if err := d.openOrAnswer(ctx, c, func(err error) { diskFailed(p, err) }, early); err != nil {
		return errors.Join(d.stoppedEarly(ctx, err), server.Close())
	}
	if token := d.token; !unused { // before a reload can change it
		d.isRead = func() { sayHow(p, c, listener.Addr(), token, d.upstreamState()) }
	}
	stopReloading := (&reloader{load: loadHere, running: loaded, level: level, sidecar: d, unit: unit, logger: logger}).on(hangups)
	defer stopReloading()
	announce()
	unit.look()
	err = d.run(ctx, serve, server.Shutdown)
	return errors.Join(err, server.Close(), d.close())
}

// beginLog opens the log. The server goes on if the log's reader goes away or stops reading.
func beginLog(loaded *config.Loaded, level *slog.LevelVar, p *cli.Program) *slog.Logger {
	signal.Ignore(syscall.SIGPIPE) // guard 22.17
	level.Set(serverlog.LevelOf(loaded.Config.Log))
	logger := p.Open(level)
	for _, warning := range loaded.Warnings {
		logger.Warn(warning)
	}
	if runtime.GOOS == "windows" {
		logger.Warn("botwired is tested on Linux: on Windows nothing has proved that a write outlives a power cut; docs/install.md says what else differs")
	}
	return logger
}

// diskFailed ends the process at once when the disk fails. The journal calls it before the daemon can
// acknowledge another write (contract 2).
func diskFailed(p *cli.Program, err error) {
	said := "botwired: the disk failed: %v: botwired ends without another try; check the disk before you start it again\n"
	if errors.Is(err, journal.ErrCorrupt) {
		said = "botwired: the disk has damaged the journal: %v: botwired ends; the next start mends the journal, or says what to do\n"
	}
	p.Log.Last(fmt.Sprintf(said, err))
	p.Log.End(serverlog.FatalDrain)
	os.Exit(cli.ExitError) // guard 2.7
}

// run serves until ctx ends or one of the daemon's parts fails.
func (d *sidecar) run(ctx context.Context, serve func() error, shutdown func(context.Context) error) error {
	// The flusher outlives ctx: it drains the callers' last writes.
	flushing, stopFlushing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFlushing()
	g, broken := errgroup.WithContext(flushing)
	g.Go(func() error {
		if err := d.readJournal(flushing); err != nil {
			return err
		}
		return d.journal.Maintain(flushing)
	})
	g.Go(func() error { return d.flusher.Run(flushing) })
	g.Go(func() error { return d.proxy.Run(flushing) })
	g.Go(func() error {
		return remindOfDeadLetters(flushing, d.journal.Rebuilt(), func() int { return d.journal.Stats().OpenDeadLetters }, d.logger)
	})
	g.Go(func() error {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	select {
	case <-ctx.Done():
		d.logger.Info("stopping")
		d.stop(broken, d.config.Load().Flush.DrainTimeout, shutdown)
	case <-broken.Done():
		d.shutDown(flushing, shutdown)
	}
	stopFlushing()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// readJournal rebuilds the journal's index, and logs how many writes are pending. The count is unknown
// before.
func (d *sidecar) readJournal(ctx context.Context) error {
	if err := d.journal.Run(ctx); err != nil {
		return err
	}
	debug.FreeOSMemory() // reading a large journal takes twice the memory of its index
	st := d.journal.Stats()
	d.logger.Info("journal read", "pending", st.Pending, "dead_letters", st.DeadLetters)
	if d.isRead != nil {
		d.isRead()
	}
	return nil
}

// stop drains the flusher, and serves meanwhile: no caller is refused as long as the daemon can take
// its write. Then it closes the listener, and drains the writes that came in meanwhile. All of this
// takes no longer than limit, and part of that is kept for the last callers and their writes (contract
// 22). If the listener outlives the daemon, callers wait for the next daemon from then on: the last
// drain is short, and the next daemon sends the rest.
func (d *sidecar) stop(ctx context.Context, limit time.Duration, shutdown func(context.Context) error) {
	idle, last := time.After(0), limit
	if d.outlived {
		d.endConnections() // guard 22.12
		idle, last = time.After(idleGrace), callersGrace
	}
	ctx, cancel := context.WithTimeout(ctx, limit) // guard 22.3
	defer cancel()
	d.proxy.BeginStop() // guard 22.6
	// guard 22.1
	flushed := d.drainWhileServing(ctx, limit-min(callersGrace, limit/callersShare))
	select {
	case <-idle:
	case <-ctx.Done():
	}
	if d.outlived {
		end, _ := ctx.Deadline()
		defer time.AfterFunc(min(waitsGrace, time.Until(end)/2), d.proxy.EndWaits).Stop() // guard 22.8
	} else {
		d.proxy.EndWaits() // guard 22.7
	}
	d.shutDown(ctx, shutdown)
	if flushed.Pending == 0 { // guard 22.2
		flushed = sum(flushed, d.drain(ctx, last))
	}
	flushed.Pending = d.journal.Stats().Pending
	d.logger.Info("stopped", "settled", flushed.Settled, "dead", flushed.Dead, "pending", flushed.Pending, "unanswered", flushed.Unanswered)
	if d.drained != nil {
		d.drained(attach.Drained(flushed))
	}
}

// drainWhileServing drains repeatedly, because callers go on writing, as long as each drain is faster
// than the one before. This keeps the last drain, which runs without serving, short.
func (d *sidecar) drainWhileServing(ctx context.Context, limit time.Duration) (flushed flush.Result) {
	end, last := time.Now().Add(limit), limit
	for {
		began := time.Now()
		flushed = sum(flushed, d.drain(ctx, time.Until(end)))
		took := time.Since(began)
		if flushed.Pending > 0 || took < shortDrain || took >= last {
			return flushed
		}
		last = took
	}
}

func sum(a, b flush.Result) flush.Result {
	return flush.Result{Settled: a.Settled + b.Settled, Dead: a.Dead + b.Dead, Pending: b.Pending, Unanswered: b.Unanswered}
}

func (d *sidecar) shutDown(ctx context.Context, shutdown func(context.Context) error) {
	grace, cancel := context.WithTimeout(ctx, callersGrace)
	defer cancel()
	if err := shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		d.logger.Warn("stopping the server", "error", err)
	}
}

func (d *sidecar) drain(ctx context.Context, limit time.Duration) flush.Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.flusher.Drain(ctx)
}

// newHTTPServer limits what a caller can hold: header size and times. Handlers limit bodies, and the
// listener limits connections. Handlers that may take longer extend their own deadline.
func newHTTPServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// The handler also answers "OPTIONS *", because it checks the Host first.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     httplog.New(logger, slog.LevelDebug),
	}
}

// changed passes a change of the journal to the parts that must know it before a reader can see it.
func (d *sidecar) changed(c journal.Change) {
	d.cache.Changed(c.Namespace, c.Key)
	d.flusher.Changed(c)
	d.proxy.Changed(c)
}

// remindEvery is how often the log repeats that dead letters need a decision. Each new one is also
// logged once, but people look at the end of a log.
const remindEvery = 24 * time.Hour

// remindOfDeadLetters logs a warning if there are open dead letters: once when read is closed, then
// once a day.
func remindOfDeadLetters(ctx context.Context, read <-chan struct{}, open func() int, logger *slog.Logger) error {
	select {
	case <-read:
	case <-ctx.Done():
		return nil
	}
	ticker := time.NewTicker(remindEvery)
	defer ticker.Stop()
	for {
		if n := open(); n > 0 {
			logger.Warn(`upstream has refused writes for good, and they wait for your decision: "botwired dead-letters" lists them, "botwired dead-letters retry" or "delete" decides`,
				"open_dead_letters", n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sayHow prints what a user needs once serve is ready. It prints nothing if stderr is not a terminal.
func sayHow(p *cli.Program, c *config.Config, address net.Addr, token string, up api.UpstreamState) {
	if !p.IsTerminal(p.Stderr) {
		return
	}
	lines := []string{"botwired is ready."}
	if export := attach.ExportLine(c, address.String(), token); export != "" {
		lines = append(lines, "  Agents:    "+export, "  Page:      http://"+api.Host(address.String()))
	}
	for _, each := range append(lines, "  Upstream:  "+c.Upstream.URL+" ("+up.Said()+")", "  To stop:   Ctrl-C; botwired first sends what waits") {
		_, _ = p.Log.Write([]byte(each + "\n")) // never fails
	}
}
