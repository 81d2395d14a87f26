package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
)

// selfhostDefaults keep the memory service out of the daemon's way when both
// run on one machine with one configuration file.
func selfhostDefaults() map[string]string {
	return map[string]string{"listen": "127.0.0.1:2690", "embedded.latency": "0s"}
}

func newSelfhostCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selfhost",
		Short: "Run BotWire's memory service itself",
		Long: "Run BotWire's memory service itself, in an SQLite file of the layout that BotWire's own\n" +
			"server uses. Unless set, listen is 127.0.0.1:2690 and embedded.latency 0s.",
		Args: noArguments,
	}
	database := cmd.Flags().String("db", "", "database file (default memory.db in data_dir)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := settings.load(selfhostDefaults())
		if err != nil {
			return err
		}
		path := *database
		if path == "" {
			path = filepath.Join(loaded.Config.DataDir, "memory.db")
		}
		return selfhost(cmd.Context(), loaded, path, p.stdout, p.stderr)
	}
	return cmd
}

// selfhost serves the memory service from the database file until ctx ends.
func selfhost(ctx context.Context, loaded *config.Loaded, _ string, _, stderr io.Writer) error {
	return serveHTTP(ctx, loaded, stderr, http.NotFoundHandler())
}
