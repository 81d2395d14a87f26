// Command botwired is a sidecar daemon that speaks BotWire's memory API on loopback, and the commands
// to talk to a running one.
//
// This package owns flags, wiring, signals and the order of shutdown. Only it imports all other
// packages. Policy is in the other packages.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
)

// run is the whole program. It returns the exit code when everything has ended. The first SIGINT or
// SIGTERM cancels the command; a second ends the process at once (contract 22).
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var ignored []os.Signal
	if signal.Ignored(os.Interrupt) {
		ignored = append(ignored, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// guard 22.5
	defer context.AfterFunc(ctx, stop)()
	manager := service.Inherit() // children must not inherit its sockets
	p := newProcess(term.Own(stdout, stderr), args, &manager)
	p.Ignored = ignored
	return p.Run(ctx)
}

// newProcess returns the program for a command line. manager holds what the service manager passed to
// the process.
func newProcess(t term.Terminal, args []string, manager *service.Inherited) *cli.Program {
	return &cli.Program{Terminal: t, Args: args, Own: func(p *cli.Program, settings *cli.Settings) []*cobra.Command {
		return []*cobra.Command{newServeCommand(p, settings, manager), newRecoverCommand(p, settings), newSelfhostCommand(p, settings)}
	}}
}

func main() {
	// net/http's client logs errors to the standard logger, and quotes upstream, which may include a value.
	log.SetOutput(io.Discard)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
