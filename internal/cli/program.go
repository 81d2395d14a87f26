// Package cli is botwired's command line: the tree of commands, their flags and help, and the commands
// that use package api to ask a running daemon. The program adds the commands that serve or open the
// data directory.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/serverlog"
)

// Exit codes.
const (
	ExitOK    = 0
	ExitError = 1 // the command failed, or the configuration is invalid
	ExitUsage = 2 // botwired does not understand the command line
)

// Program is one run of the program: its command line, and its access to the outside world.
type Program struct {
	term.Terminal
	Args    []string
	Own     func(*Program, *Settings) []*cobra.Command // the commands that do not ask a daemon over HTTP
	Log     *serverlog.Writer                          // of a server, in front of stderr; else nil
	Ignored []os.Signal                                // ignored by the process's parent
}

// Run runs the command line, and returns the exit code.
func (p *Program) Run(ctx context.Context) int {
	root := NewRoot(p)
	root.SetArgs(append([]string{}, p.Args...)) // not nil: that would mean os.Args
	err := root.ExecuteContext(ctx)
	if p.Log != nil {
		defer p.Log.End(serverlog.LogDrain)
	}
	if err == nil {
		return ExitOK
	}
	if status, ok := errors.AsType[*term.Exit](err); ok {
		if status.Err != nil {
			p.say("botwired: " + term.Printable(status.Error()) + "\n")
		}
		return status.Code
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	p.say("botwired: " + term.Printable(err.Error()) + "\n")
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	return ExitError
}

// Open returns a server's logger. It writes text to a terminal, and JSON to anything else: a service
// manager, a container's log, a file or a pipe. The rest of the log is written when the process ends.
func (p *Program) Open(level slog.Leveler) *slog.Logger {
	logger, w := serverlog.Open(p.Stderr, p.IsTerminal(p.Stderr), level)
	p.Log = w
	return logger
}

// say writes the line that says why the process ends.
func (p *Program) say(line string) {
	if p.Log != nil {
		p.Log.Last(line)
		return
	}
	p.Say(line)
}

// tellOfDaemon writes that the daemon is not the one that the user may expect.
func (p *Program) tellOfDaemon(text string) { p.Say("botwired: " + term.Printable(text) + "\n") }

// UsageError is a mistake in the command line.
type UsageError struct{ err error }

// Error returns what is wrong.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// Settings collects the settings given as flags, for config.Sources.
type Settings struct {
	process *Program
	values  map[string]string // by setting name
	file    string            // --config
}

// Load loads the configuration in force. defaults replaces the defaults of some settings for one
// command, and may be nil.
func (f *Settings) Load(defaults map[string]string) (*config.Loaded, error) {
	return config.Load(f.sources(defaults))
}

func (f *Settings) sources(defaults map[string]string) config.Sources {
	return config.Sources{Flags: f.values, Environ: f.process.Environ, File: f.file, Defaults: defaults}
}

// LoadWithDataDir loads the configuration like Load, and fails if it has no data directory.
func (f *Settings) LoadWithDataDir(defaults map[string]string) (*config.Loaded, error) {
	loaded, err := f.Load(defaults)
	if err != nil {
		return nil, err
	}
	return loaded, loaded.RequireDataDir()
}

// LoadWithSocket loads the configuration like LoadWithDataDir, for a daemon that may get a socket from
// the service manager.
func (f *Settings) LoadWithSocket(socket config.Socket) (*config.Loaded, error) {
	sources := f.sources(nil)
	sources.Socket = socket
	loaded, err := config.Load(sources)
	if err != nil {
		return nil, err
	}
	return loaded, loaded.RequireDataDir()
}

func (f *Settings) connect() (*attach.Client, error) {
	loaded, err := f.Load(nil)
	if err != nil {
		return nil, err
	}
	return attach.Connect(loaded, build.Version(), f.process.tellOfDaemon)
}

// asks returns the RunE of a command that asks the daemon: run gets a client of it, and the KEY among the arguments as
// BotWire has it.
func (f *Settings) asks(run func(ctx context.Context, c *attach.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		args, err := withKey(cmd, args)
		if err != nil {
			return err
		}
		c, err := f.connect()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

func withKey(cmd *cobra.Command, args []string) ([]string, error) {
	at := slices.Index(placesOf(cmd.Use), "KEY")
	if at < 0 || at >= len(args) {
		return args, nil
	}
	key, err := keyname.Parse(args[at])
	if err != nil {
		return nil, err
	}
	args = slices.Clone(args)
	args[at] = key
	return args, nil
}

// ask makes a request and prints the answer: unchanged if asJSON is set, otherwise with print.
func ask[T any](ctx context.Context, p *Program, c *attach.Client, r api.Request, asJSON bool, print func(answer *T) error) error {
	_, err := askFor(ctx, p, c, r, asJSON, print)
	return err
}

// askFor does as ask does, and returns the answer.
func askFor[T any](ctx context.Context, p *Program, c *attach.Client, r api.Request, asJSON bool, print func(answer *T) error) (*T, error) {
	answer := new(T)
	got, err := c.Read(ctx, r, answer)
	switch {
	case err != nil:
		return answer, withKeyAsGiven(err, r.Query.Get("key"))
	case asJSON:
		return answer, term.JSON(p.Stdout, got.Body)
	}
	return answer, print(answer)
}

// renamed is an error whose text names a key as its user does.
type renamed struct {
	error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.error }

// withKeyAsGiven has an error of the daemon's name a key as the command line does, and not as it stands upstream.
func withKeyAsGiven(err error, key string) error {
	if given := keyname.Format(key); given != key {
		return renamed{err, strings.ReplaceAll(err.Error(), key, given)}
	}
	return err
}

type entryID struct{ Namespace, Key string }

func (id entryID) String() string { return id.Namespace + "/" + keyname.Format(id.Key) }

// byHandTime is how long the daemon may take to carry out a user's decision. A request in flight for
// the entry ends first.
const byHandTime = time.Minute

// byHandGrace is extra time for the daemon to answer that the time is up.
const byHandGrace = 3 * time.Second

func byHand(path string, query url.Values) api.Request {
	return api.Request{Method: http.MethodPost, Path: api.Surface(strings.Split(path, "/")...), Query: query, Within: byHandTime + byHandGrace}
}

func entryQuery(id entryID) url.Values {
	return url.Values{"namespace": {id.Namespace}, "key": {id.Key}}
}

// decideLoss returns the request that sends the daemon a user's decision about a bucket that has lost
// writes.
func decideLoss(decision string) api.Request {
	return byHand(decision, url.Values{"namespace": {"*"}})
}
