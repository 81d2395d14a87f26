package config_test

import (
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
			ReadPatience: 5 * time.Second, Concurrency: 16, Headers: map[string]string{},
		},
		Embedded: config.EmbeddedUpstream{Latency: 50 * time.Millisecond},
		Cache: config.Cache{
			Memory: 64 << 20, Disk: 1 << 30, FreshFor: 10 * time.Second, StaleWhileRevalidate: time.Minute,
			StaleIfError: config.NoLimit, AbsentFor: 2 * time.Second,
		},
		Journal: config.Journal{MaxBytes: 256 << 20, DiskReserve: 64 << 20},
		Flush: config.Flush{
			Linger: 100 * time.Millisecond, BackoffInitial: 200 * time.Millisecond,
			BackoffMax: 30 * time.Second, DrainTimeout: 10 * time.Second,
		},
		Quota:      config.Quota{WritesPerDay: 1000},
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
	for url, want := range map[string]int{
		"https://botwire.dev":        1000,
		"https://BotWire.dev/base":   1000,
		"https://eu.botwire.dev:443": 1000,
		"https://notbotwire.dev":     0,
		"https://botwire.dev.evil.x": 0,
		"http://127.0.0.1:1":         0,
		"embedded":                   0,
	} {
		got := load(t, config.Sources{Flags: map[string]string{"upstream.url": url}}).Config.Quota.WritesPerDay
		if got != want {
			t.Errorf("quota.writes_per_day for %s = %d, want %d", url, got, want)
		}
	}
	set := load(t, config.Sources{Flags: map[string]string{"quota.writes_per_day": "0"}})
	if set.Config.Quota.WritesPerDay != 0 {
		t.Errorf("quota.writes_per_day set to 0 became %d", set.Config.Quota.WritesPerDay)
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

func TestNoHome(t *testing.T) {
	message := refused(t, config.Sources{Environ: []string{}})
	wantAll(t, message, "data_dir", "default", "home directory")
	load(t, config.Sources{Environ: []string{}, Flags: map[string]string{"data_dir": "/somewhere"}})
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
