package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
)

func newServeCommand(p *process, settings *settingFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := settings.load(nil)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), loaded, p.stdout, p.stderr)
		},
	}
}

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, loaded *config.Loaded, _, stderr io.Writer) error {
	return serveHTTP(ctx, loaded, stderr, http.NotFoundHandler())
}

// serveHTTP answers on the configured listener until ctx ends.
func serveHTTP(ctx context.Context, loaded *config.Loaded, stderr io.Writer, handler http.Handler) error {
	logger := newLogger(loaded.Config.Log, stderr)
	for _, warning := range loaded.Warnings {
		logger.Warn(warning)
	}
	listener, err := listen(ctx, &loaded.Config)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	logger.Info("listening", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listen opens the listener that the setting listen names.
func listen(ctx context.Context, c *config.Config) (net.Listener, error) {
	network, address := "tcp", c.Listen
	if socket, ok := c.Socket(); ok {
		network, address = "unix", socket
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("listen = %q: %w", c.Listen, err)
	}
	return listener, nil
}
