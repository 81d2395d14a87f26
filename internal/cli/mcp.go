package cli

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/mcp"
	"github.com/botwired/botwired/internal/serverlog"
	"github.com/botwired/botwired/internal/wire"
)

// mcpOptions restricts what a client of "botwired mcp" can do.
type mcpOptions struct {
	namespace *string
	readOnly  *bool
}

func newMCPOptions(cmd *cobra.Command) mcpOptions {
	return mcpOptions{
		namespace: namespaceFlag(cmd, "the only `namespace` of the client, whose tools then take none"),
		readOnly:  cmd.Flags().Bool("read-only", false, "leave out the tools that write"),
	}
}

func (o mcpOptions) check() error {
	if *o.namespace == "" {
		return nil
	}
	if invalid := wire.CheckNamespace(*o.namespace); invalid != nil {
		return Usagef("--namespace = %q: expected 1 to 64 characters of a-z, A-Z, 0-9, _ and -", *o.namespace)
	}
	return nil
}

// mcpSettings are the settings in the help of "botwired mcp" and "botwired mcp install".
var mcpSettings = append([]string{"config", "data_dir", "upstream.url", "flush.drain_timeout", "log.level"}, ClientSettings...)

func newMCPCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Offer the memory to an MCP client, over stdin and stdout",
		GroupID: GroupServices,
		Long: "Offer the memory as tools of the Model Context Protocol to the client that starts this command, over\n" +
			"its stdin and stdout. It keeps nothing itself: all such commands, and all agents, share the\n" +
			"one daemon at the address. If no daemon answers there, the command starts one with its own flags and\n" +
			"settings, as botwired run does: that daemon ends after the last command that uses it, and flushes first.\n" +
			"\"botwired mcp install\" has a client start this command. The log goes to stderr.",
		Example: "  botwired mcp install --client claude-code\n" +
			"  botwired mcp --namespace project-x --read-only",
		Args: NoArguments,
	}
	options := newMCPOptions(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := options.check(); err != nil {
			return err
		}
		return serveMCP(cmd.Context(), p, settings, options)
	}
	settings.Takes(cmd, AllSettings()...) // it passes them to the daemon that it starts
	HideSettings(cmd, mcpSettings...)
	cmd.AddCommand(newMCPInstallCommand(p, settings))
	return cmd
}

// serveMCP serves the client on stdin and stdout until the client closes stdin or ctx ends. It starts
// before the daemon is ready: a client's first requests do not need it.
func serveMCP(ctx context.Context, p *Program, settings *Settings, options mcpOptions) error {
	use, err := p.attaches("botwired mcp", settings)
	if err != nil {
		return err
	}
	var logger *slog.Logger
	use.Waiting = func(reason string) { logger.Info("waiting for the daemon", "reason", term.Printable(reason)) }
	link, err := attach.NewLink(use)
	if err != nil {
		return err
	}
	token, err := use.Loaded.Config.Token()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a client that goes away must not cut off the daemon's last flush
	logger = p.Open(serverlog.LevelOf(use.Loaded.Config.Log))
	server := mcp.New(mcp.Options{
		Daemon:    api.Options{Listen: use.Loaded.Config.Listen, Token: token, Transport: link},
		Namespace: *options.namespace, ReadOnly: *options.readOnly,
		Version: build.Version(), Logger: logger,
	})
	serving, fail := context.WithCancelCause(ctx)
	attached := make(chan struct{})
	go func() {
		defer close(attached)
		if err := link.Attach(serving); err != nil && serving.Err() == nil {
			fail(err)
		}
	}()
	err = server.ServeStdio(serving, p.Stdin, p.Stdout)
	if cause := context.Cause(serving); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	} else if ctx.Err() != nil {
		err = nil // clients also end it with a signal
	}
	fail(nil)
	<-attached
	if said := link.Close(context.WithoutCancel(ctx)); said != "" {
		logger.Warn(said)
	}
	return err
}
