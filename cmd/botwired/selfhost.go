package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/listen"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/words"
)

// selfhostDefaults keep the memory service apart from a daemon on the same machine with the same
// configuration file.
func selfhostDefaults() map[string]string {
	return map[string]string{"listen": "127.0.0.1:2690", "embedded.latency": "0s"}
}

func newSelfhostCommand(p *cli.Program, settings *cli.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "selfhost",
		Short:   "Run BotWire's memory service itself",
		GroupID: cli.GroupServices,
		Example: "  botwired selfhost\n" +
			"  botwired selfhost --db memory.db --listen 127.0.0.1:2700",
		Long: "Run BotWire's memory service itself, on an SQLite file in the layout of BotWire's own server.\n" +
			"The default of listen is 127.0.0.1:2690 here, and that of embedded.latency 0s.",
		Args: cli.NoArguments,
	}
	taken := []string{"data_dir", "allowed_hosts", "allowed_origins", "embedded.latency", "log.level"}
	settings.Takes(cmd, slices.Concat(taken, cli.ClientSettings)...)
	useSelfhostDefaults(cmd.Flags())
	database := cmd.Flags().String("db", "", "database file (default memory.db in data_dir)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		load := settings.Load
		if *database == "" {
			load = settings.LoadWithDataDir
		}
		loaded, err := load(selfhostDefaults())
		if err != nil {
			return err
		}
		path := *database
		if path == "" {
			path = filepath.Join(loaded.Config.DataDir, engines.DatabaseFile)
		}
		return serveMemory(cmd.Context(), loaded, path, p)
	}
	return cmd
}

func serveMemory(ctx context.Context, loaded *config.Loaded, path string, p *cli.Program) error {
	c := &loaded.Config
	logger := beginLog(loaded, new(slog.LevelVar), p)
	listener, err := listen.On(ctx, c) // if the address is taken, the server touches nothing else
	if err != nil {
		return err
	}
	_, err = os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	service, err := openService(ctx, c, path, logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	logger.Info("listening", "address", listener.Addr().String(), "database", path, "version", build.Version())
	if isNew {
		logger.Info("there was no such database: a new one was made, and it is empty", "database", path)
	}
	server := fastpath.New(listener, fastpath.Options{
		HTTP: newHTTPServer(service.Handler(), logger), Logger: logger, MaxConns: connectionBound(openFilesLimit(), 0, logger),
		Admits: func(*http.Request) bool { return false }, // the handler answers every request
	})
	return errors.Join(serveUntil(ctx, server), service.Close())
}

// serveUntil serves until ctx ends. It returns when the requests in progress are answered, or after
// callersGrace.
func serveUntil(ctx context.Context, server *fastpath.Server) error {
	stopped := make(chan struct{})
	remain := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), callersGrace)
		defer cancel()
		_ = errors.Join(server.Shutdown(grace), server.Close()) // Close cuts the remaining connections
	})
	err := server.Serve()
	if remain() {
		return errors.Join(err, server.Close())
	}
	<-stopped // Serve returns as soon as Shutdown begins
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func openService(ctx context.Context, c *config.Config, path string, logger *slog.Logger) (*selfhost.Server, error) {
	token, err := c.Token()
	if err != nil {
		return nil, err
	}
	if err := databaseDir(c, path); err != nil {
		return nil, err
	}
	service, err := selfhost.Open(ctx, selfhost.Options{
		Path: path, Latency: c.Embedded.Latency, Version: build.Version(), Guard: guardOptions(c, token), Logger: logger,
	})
	if err != nil {
		return nil, words.Unusable(err)
	}
	return service, nil
}

// databaseDir creates the data directory if the database is in it. It creates no other directory: a
// mistyped path must be an error, not an empty database.
func databaseDir(c *config.Config, path string) error {
	dir := filepath.Dir(path)
	if dir == c.DataDir {
		err := words.Unusable(os.MkdirAll(dir, dirMode))
		if err == nil {
			err = refuseOwners(dir) // guard 21.15
		}
		if err != nil {
			return fmt.Errorf("data_dir = %q: %w", dir, err)
		}
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--db = %q: the directory %s does not exist: make it, or correct the path", path, dir)
	}
	return nil
}

// useSelfhostDefaults shows selfhost's defaults in the help of its flags.
func useSelfhostDefaults(flags *pflag.FlagSet) {
	flags.Lookup("data-dir").Usage = "directory of the database; --db names a file elsewhere"
	for name, value := range selfhostDefaults() {
		flags.Lookup(config.FlagName(name)).DefValue = value
	}
}
