package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

func TestDefaults(t *testing.T) {
	state := t.TempDir()
	loaded := load(t, config.Sources{Environ: home(t, "XDG_STATE_HOME="+state)})
	want := config.Config{
		Listen:         "127.0.0.1:2689",
		AllowedHosts:   []string{},
		AllowedOrigins: []string{},
		DataDir:        filepath.Join(state, "botwired"),
		Upstream: config.Upstream{
			URL: "https://botwire.dev", Timeout: 10 * time.Second, LateWindow: 30 * time.Second,
			Concurrency: 16, Headers: map[string]string{},
			NATS: config.NATS{
				Bucket: "botwire", Create: true, Replicas: 3,
			},
		},
		Embedded: config.EmbeddedUpstream{Latency: 50 * time.Millisecond},
		Cache:    config.Cache{Memory: 64 << 20, Disk: 1 << 30},
		History:  config.History{Disk: 256 << 20},
		Journal:  config.Journal{MaxBytes: 256 << 20, DiskReserve: 64 << 20},
		Flush:    config.Flush{DrainTimeout: 10 * time.Second},
		Policy: config.Policy{
			FreshFor: 10 * time.Second, StaleWhileRevalidate: time.Minute, StaleIfError: config.NoLimit, AbsentFor: 2 * time.Second,
			Linger: 100 * time.Millisecond, Offline: "refuse",
			Quota: config.Quota{WritesPerDay: 1000, Period: 24 * time.Hour, MaxAge: 15 * time.Minute, NamespaceBytes: 50_000_000},
		},
		Log:        config.Log{Level: "info"},
		Namespaces: []config.Override{},
	}
	if runtime.GOOS != "linux" {
		want.DataDir = loaded.Config.DataDir
	}
	if diff := cmp.Diff(want, loaded.Config); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	for _, v := range loaded.Values {
		if v.Source.String() != "default" {
			t.Errorf("%s comes from %q, want default", v.Name, v.Source)
		}
	}
}

func TestQuotaFollowsUpstream(t *testing.T) {
	for url, has := range map[string]bool{
		"https://botwire.dev":        true,
		"https://BotWire.dev/base":   true,
		"https://eu.botwire.dev:443": true,
		"https://notbotwire.dev":     false,
		"https://botwire.dev.evil.x": false,
		"http://127.0.0.1:1":         false,
		"embedded":                   false,
	} {
		writes, bytes := 0, int64(0)
		if has {
			writes, bytes = 1000, 50_000_000
		}
		got := load(t, config.Sources{Flags: map[string]string{"upstream.url": url}}).Config.Quota
		if got.WritesPerDay != writes || got.NamespaceBytes != bytes {
			t.Errorf("the quota for %s is %d writes and %d bytes, want %d and %d", url, got.WritesPerDay, got.NamespaceBytes, writes, bytes)
		}
	}
	set := load(t, config.Sources{Flags: map[string]string{"quota.writes_per_day": "0", "quota.namespace_bytes": "0"}})
	if got := set.Config.Quota; got.WritesPerDay != 0 || got.NamespaceBytes != 0 {
		t.Errorf("a quota set to 0 became %d writes and %d bytes", got.WritesPerDay, got.NamespaceBytes)
	}
}

func TestDefaultsOfOneCommand(t *testing.T) {
	src := config.Sources{Defaults: map[string]string{"listen": "127.0.0.1:2690", "embedded.latency": "0s"}}
	loaded := load(t, src)
	if loaded.Config.Listen != "127.0.0.1:2690" || loaded.Config.Embedded.Latency != 0 {
		t.Errorf("listen %s, latency %s", loaded.Config.Listen, loaded.Config.Embedded.Latency)
	}
	if got := loaded.Source("listen").Layer; got != config.FromDefault {
		t.Errorf("source of listen = %s", got)
	}
	src.Flags = map[string]string{"listen": "127.0.0.1:1"}
	if got := load(t, src).Config.Listen; got != "127.0.0.1:1" {
		t.Errorf("listen = %s", got)
	}
}

// Only commands that use the data directory need a home for its default.
func TestNoHome(t *testing.T) {
	for _, environ := range [][]string{{}, {"HOME=relative"}, {"HOME="}} {
		loaded := load(t, config.Sources{Environ: environ})
		err := loaded.RequireDataDir()
		if fault := new(config.Error); !errors.As(err, &fault) || loaded.Config.DataDir != "" {
			t.Fatalf("%q: data_dir = %q, error %v", environ, loaded.Config.DataDir, err)
		}
		wantAll(t, err.Error(), "data_dir", "default", "HOME", "set data_dir (--data-dir or BOTWIRED_DATA_DIR)")
		if dir := config.DefaultDataDir(environ); dir != "" {
			t.Errorf("%q: the default of data_dir is %q", environ, dir)
		}
	}
	given := load(t, config.Sources{Environ: []string{}, Flags: map[string]string{"data_dir": "/somewhere"}})
	if err := given.RequireDataDir(); err != nil {
		t.Error(err)
	}
	environ := home(t)
	if got, want := config.DefaultDataDir(environ), load(t, config.Sources{Environ: environ}).Config.DataDir; got != want || want == "" {
		t.Errorf("the default of data_dir is %q, want %q", got, want)
	}
}

// A relative path in the configuration file is relative to the file's directory, not to the working
// directory.
func TestPathsInTheFile(t *testing.T) {
	file := write(t, "config.yaml", "data_dir: data\nauth: {token_file: secrets/token}\nupstream.headers: {x-a: {file: secrets/header}}\n")
	dir := filepath.Dir(file)
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"token": "abc", "header": "value"} {
		if err := os.WriteFile(filepath.Join(dir, "secrets", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := t.TempDir()
	t.Chdir(here)
	relative, err := filepath.Rel(here, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{file, relative} {
		c := load(t, config.Sources{File: named}).Config
		if c.DataDir != filepath.Join(dir, "data") || c.Auth.TokenFile != filepath.Join(dir, "secrets", "token") || c.Upstream.Headers["X-A"] != "value" {
			t.Errorf("%s: %+v", named, c)
		}
	}
	c := load(t, config.Sources{File: file, Flags: map[string]string{"data_dir": "mine"}, Environ: home(t, "BOTWIRED_AUTH_TOKEN_FILE=none")}).Config
	if c.DataDir != filepath.Join(here, "mine") || c.Auth.TokenFile != "" {
		t.Errorf("%+v", c)
	}
}

func TestTabsInTheFile(t *testing.T) {
	for _, content := range []string{"log:\n\tlevel: warn\n", "log:\n  level: warn\n\tformat: json\n", "\tlisten: localhost:1\n"} {
		message := refused(t, config.Sources{File: write(t, "config.yaml", content)})
		wantAll(t, message, "expected spaces", "a tab")
	}
}

func TestPaths(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("HOME and / are not Windows's")
	}
	here := t.TempDir()
	t.Chdir(here)
	for given, want := range map[string]string{
		"/a/../b": "/b",
		"rel":     filepath.Join(here, "rel"),
		"~/x":     "/home/of/x",
		"~x":      filepath.Join(here, "~x"),
		"$HOME/x": filepath.Join(here, "$HOME/x"),
	} {
		loaded := load(t, config.Sources{Environ: []string{"HOME=/home/of"}, Flags: map[string]string{"data_dir": given}})
		if loaded.Config.DataDir != want {
			t.Errorf("data_dir %s = %s, want %s", given, loaded.Config.DataDir, want)
		}
	}
	wantAll(t, refused(t, config.Sources{Environ: []string{}, Flags: map[string]string{"data_dir": "~/x"}}),
		"data_dir", `"~/x"`, "flag --data-dir", "no home directory")
}
