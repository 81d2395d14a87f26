package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/upstream/natskv"
)

// serveCluster runs the memory service on a bucket until the command's context ends.
func serveCluster(cmd *cobra.Command, settings *cli.Settings, store string, p *cli.Program) error {
	switch flags := cmd.Flags(); {
	case flags.Changed("db"):
		return cli.Usagef("--db and --store exclude each other: expected one of them")
	case flags.Changed(config.FlagName("embedded.latency")):
		return cli.Usagef("--embedded-latency is for a database: expected it without --store")
	}
	url, err := config.ParseServers(store)
	if err != nil {
		return cli.Usagef("--store = %q: expected %s", hideStore(store), err)
	}
	loaded, err := settings.Load(selfhostDefaults())
	if err != nil {
		return err
	}
	c := loaded.Config
	c.Upstream.URL = url
	logger, listener, err := begin(cmd.Context(), loaded, new(slog.LevelVar), p)
	if err != nil {
		return err
	}
	service, err := openClusterService(cmd.Context(), &c, logger)
	if err != nil {
		return errors.Join(fmt.Errorf("--store = %q: %w", url, words.Unusable(err)), listener.Close())
	}
	logger.Info("listening", "address", listener.Addr().String(), "store", url, "bucket", c.Upstream.NATS.Bucket, "version", build.Version())
	return serveService(cmd.Context(), service, listener, logger)
}

// hideStore leaves out what may be a password.
func hideStore(store string) string {
	if i := strings.LastIndex(store, "@"); i >= 0 {
		return "..." + store[i:]
	}
	return store
}

// openClusterService opens the memory service on the bucket of c.Upstream. The service is a host of
// its own for as long as it runs.
func openClusterService(ctx context.Context, c *config.Config, logger *slog.Logger) (*selfhost.Server, error) {
	token, err := c.Token()
	if err != nil {
		return nil, err
	}
	opts, err := engines.Cluster(c, c.Upstream.Servers(), newHost(), logger)
	if err != nil {
		return nil, err
	}
	store, err := openClusterStore(ctx, opts)
	if err != nil {
		return nil, err
	}
	return selfhost.New(store, selfhost.Options{Version: build.Version(), Guard: guardOptions(c, token), Logger: logger}), nil
}

// openClusterStore opens a bucket as the memory service uses it.
func openClusterStore(ctx context.Context, opts natskv.Options) (selfhost.Store, error) {
	engine, err := natskv.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	return natskv.NewService(engine), nil
}
