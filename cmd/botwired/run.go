// Command botwired is a sidecar daemon that speaks BotWire's memory API on
// loopback, and the commands to talk to a running one.
//
// This package owns flags, wiring, signals and the order of shutdown, and it
// alone knows all other packages. Policy is theirs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"syscall"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // the command failed, or the configuration is not valid
	exitUsage = 2 // botwired does not understand the command line
)

// run is the whole program. It returns the exit code once everything has ended. The
// first SIGINT or SIGTERM cancels the command; a second ends the process at once
// (contract 22).
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var ignored []os.Signal
	if signal.Ignored(os.Interrupt) {
		ignored = append(ignored, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// guard 22.5
	defer context.AfterFunc(ctx, stop)()
	manager := service.Inherit() // its sockets are not for children
	p := &process{Terminal: term.Own(stdout, stderr), args: args, manager: manager, ignored: ignored}
	return p.run(ctx)
}

// process holds everything by which the commands reach the outside world.
type process struct {
	term.Terminal
	args    []string
	log     *logWriter  // a server's, between it and stderr; else nil
	ignored []os.Signal // by whoever started the process
	manager service.Inherited
}

func (p *process) run(ctx context.Context) int {
	root := newRootCommand(p)
	root.SetArgs(append([]string{}, p.args...)) // never nil, which would mean os.Args
	err := root.ExecuteContext(ctx)
	if p.log != nil {
		defer p.log.end(logDrain)
	}
	if err == nil {
		return exitOK
	}
	var status *term.Exit
	if errors.As(err, &status) {
		if status.Err != nil {
			p.say("botwired: " + term.Printable(status.Error()) + "\n")
		}
		return status.Code
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	p.say("botwired: " + term.Printable(err.Error()) + "\n")
	if errors.Is(err, errMissing) {
		return exitMissing
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// say writes the line that says why the process ends.
func (p *process) say(line string) {
	if p.log != nil {
		p.log.last(line)
		return
	}
	p.Say(line)
}

// usageError is a mistake in the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// settingFlags collects the settings given as flags, for config.Sources.
type settingFlags struct {
	process *process
	values  map[string]string // by setting name
	file    string            // --config
}

// load makes the configuration in force. defaults replaces the defaults of single
// settings for one command; it may be nil.
func (f *settingFlags) load(defaults map[string]string) (*config.Loaded, error) {
	return config.Load(f.sources(defaults))
}

func (f *settingFlags) sources(defaults map[string]string) config.Sources {
	return config.Sources{Flags: f.values, Environ: f.process.Environ, File: f.file, Defaults: defaults}
}

// loadWithDataDir is load for a command that uses the data directory.
func (f *settingFlags) loadWithDataDir(defaults map[string]string) (*config.Loaded, error) {
	loaded, err := f.load(defaults)
	if err != nil {
		return nil, err
	}
	return loaded, loaded.RequireDataDir()
}

// loadWithSocket is loadWithDataDir for a daemon that the service manager may have passed a socket.
func (f *settingFlags) loadWithSocket(socket config.Socket) (*config.Loaded, error) {
	sources := f.sources(nil)
	sources.Socket = socket
	loaded, err := config.Load(sources)
	if err != nil {
		return nil, err
	}
	return loaded, loaded.RequireDataDir()
}
