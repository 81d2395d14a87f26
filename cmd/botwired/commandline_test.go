package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
)

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"statsu"}, []string{`unknown command "statsu"`, "botwired --help", "did you mean status?"}},
		{[]string{"dead-letters", "retyr"}, []string{`unknown command "retyr"`, "did you mean retry?"}},
		{[]string{"status", "now"}, []string{`unexpected argument "now"`, "botwired status"}},
		{[]string{"config", "--flush-lingr=1s"}, []string{`--flush-lingr = "1s" (flag)`, "did you mean --flush-linger?"}},
		{[]string{"config", "--auth-tokn=s3cret"}, []string{"--auth-tokn = (redacted) (flag)"}},
		{[]string{"config", "--temperature", "1"}, []string{"--temperature (flag): expected one of the flags"}},
		{[]string{"config", "-x"}, []string{"botwired: unknown flag -x: expected one of the flags that --help lists\n"}},
		{[]string{"config", "--listen"}, []string{"botwired: --listen has no value: expected --listen ADDRESS\n"}},
		{[]string{"config", "--=x"}, []string{`"--=x" is no flag: expected --NAME or --NAME=VALUE`}},
		{[]string{"set", "ns", "k", "-5"}, []string{"unknown flag -5", "; if it is an argument, put two dashes before it: -- -5\n"}},
		{[]string{"set", "ns", "k", "--value"}, []string{"--value (flag)", "; if it is an argument, put two dashes before it\n"}},
		{[]string{"status", "--json=perhaps"}, []string{`botwired: --json = "perhaps": expected true or false` + "\n"}},
		{[]string{"flush", "--now=later"}, []string{`botwired: --now = "later": expected true or false` + "\n"}},
		{[]string{"drill", "--seed", "1.5"}, []string{`botwired: --seed = "1.5": expected a whole number` + "\n"}},
		{[]string{"get"}, []string{`botwired: the arguments are missing: expected "botwired get NAMESPACE KEY`}},
		{[]string{"get", "a", "b", "c"}, []string{`botwired: "botwired get" takes 2 arguments, and got 3: botwired get `}},
		{[]string{"help", "nosuch"}, []string{`unknown command "nosuch"`, `"botwired --help"`}},
		{[]string{"help", "statsu"}, []string{"did you mean status?"}},
		{[]string{"help", "dead-letters", "nosuch"}, []string{`unknown command "nosuch"`, `"botwired dead-letters --help"`}},
		{[]string{"list", "ns", "--limit", "1001"}, []string{"botwired: --limit = 1001: expected a whole number from 1 to 1000\n"}},
		{[]string{"pending", "--limit", "10001"}, []string{"botwired: --limit = 10001: expected a whole number from 1 to 10000\n"}},
		{[]string{"get", "ns"}, []string{"botwired: 1 argument, and more are needed: expected", "botwired get NAMESPACE KEY"}},
		{[]string{"get", "ns", ""}, []string{"argument 2 is empty"}},
		{[]string{"restore", "ns", ""}, []string{"argument 2 is empty"}},
		{[]string{"history", "--lost", ""}, []string{"argument 1 is empty"}},
		{[]string{"set", "a", "b", "c", "d"}, []string{"botwired set NAMESPACE KEY"}},
		{[]string{"get"}, []string{"botwired get NAMESPACE"}},
		{[]string{"dead-letters", "retry"}, []string{"botwired dead-letters retry ID..."}},
		{[]string{"flush", "--timeout", "soon"}, []string{`--timeout = "soon"`}},
		{[]string{"flush", "--timeout", "0"}, []string{`--timeout = "0"`}},
		{[]string{"flush", "--timeout", "2h"}, []string{`--timeout = "2h": expected a duration above zero, at most 1h,`}},
		{[]string{"flush", "--timeout", "3601"}, []string{`--timeout = "3601"`, "at most 1h"}},
		{[]string{"flush", "--namespace", ""}, []string{`botwired: --namespace = "": expected a namespace` + "\n"}},
		{[]string{"pending", "--namespace="}, []string{`botwired: --namespace = "": expected a namespace` + "\n"}},
		{[]string{"dead-letters", "retry", "--all", "--namespace", ""}, []string{`botwired: --namespace = "": expected a namespace` + "\n"}},
		{[]string{"pending", "--limit", "0"}, []string{"--limit = 0"}},
		{[]string{"pending", "--limit", "x"}, []string{`botwired: --limit = "x": expected a whole number` + "\n"}},
		{[]string{"status", "--ready", "--live"}, []string{"botwired: --all, --live and --ready exclude each other: expected one of them at most\n"}},
		{[]string{"status", "--all", "--ready"}, []string{"exclude each other"}},
		{[]string{"completion", "xsh"}, []string{`unknown command "xsh"`, `"botwired completion --help"`}},
		{[]string{"completion", "bash", "x"}, []string{`unexpected argument "x": expected "botwired completion bash`}},
		{[]string{"completion", "bsh"}, []string{"did you mean bash?"}},
		{[]string{"flush", "--timeout", "1h2"}, []string{`--timeout = "1h2": expected a duration`, "or a number of seconds"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := botwired(t, test.args...)
			wantFailure(t, got, cli.ExitUsage, test.want...)
			if strings.Contains(got.stderr, "s3cret") {
				t.Error("the secret is shown")
			}
		})
	}
}

func TestRefusedSettings(t *testing.T) {
	wantFailure(t, botwired(t, "config", "--listen", "0.0.0.0:1"), cli.ExitError, `listen = "0.0.0.0:1" (flag --listen)`, "auth.token_file")
	wantFailure(t, botwired(t, "status", "--config", "/nonexistent"), cli.ExitError, "configuration file", "/nonexistent")
	t.Setenv("BOTWIRED_LOG_LEVEL", "loud")
	for _, command := range []string{"config", "serve", "selfhost", "status"} {
		wantFailure(t, botwired(t, command), cli.ExitError, `log.level = "loud" (environment BOTWIRED_LOG_LEVEL)`)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"serve", "--help", "--all"}, {"help", "serve", "--all"}, {"config", "--help"}} {
		got := botwired(t, args...)
		if got.code != cli.ExitOK || got.stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, got.code, got.stderr)
		}
		for _, s := range config.Settings() {
			if !strings.Contains(got.stdout, "--"+s.Flag()+" ") {
				t.Errorf("%v does not mention --%s", args, s.Flag())
			}
		}
	}
	if got := botwired(t, "completion", "bash"); got.code != cli.ExitOK || !strings.Contains(got.stdout, "botwired") {
		t.Errorf("completion: %+v", got)
	}
	if bare, asked := botwired(t), botwired(t, "--help"); bare != asked || bare.code != cli.ExitOK {
		t.Errorf("botwired prints\n%s\nand --help\n%s", bare.stdout, asked.stdout)
	}
}

// The root's help lists the everyday commands and no settings; with --all it lists every command in its
// group. The help of serve lists the most used settings.
func TestHelpOfTheRoot(t *testing.T) {
	short := botwired(t, "--help").stdout
	for _, name := range cli.EveryDay {
		if !strings.Contains(short, "\n  "+name+" ") {
			t.Errorf("the help lacks %s", name)
		}
	}
	if strings.Contains(short, "\n  recover ") || !strings.Contains(short, `"botwired --help --all" shows all commands`) {
		t.Errorf("the help is not short:\n%s", short)
	}
	serve := botwired(t, "serve", "--help").stdout
	if strings.Contains(serve, "--cache-fresh-for ") || !strings.Contains(serve, "--upstream-url ") || !strings.Contains(serve, `"botwired serve --help --all"`) {
		t.Errorf("the help of serve is\n%s", serve)
	}
	wantFailure(t, botwired(t, "serve", "--all"), cli.ExitUsage, "--all: expected --help beside it")
	help := botwired(t, "--help", "--all").stdout
	if again := botwired(t, "help", "--all").stdout; again != help {
		t.Errorf("help --all prints\n%s", again)
	}
	at := 0
	for _, group := range cli.CommandGroups() {
		title := strings.Index(help, "\n"+group.Title+":\n")
		if title < at {
			t.Errorf("%q is not below the group before it", group.Title)
		}
		at = title
	}
	root := cli.NewRoot(newProcess(term.Terminal{}, nil, &service.Inherited{}))
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && (cmd.GroupID == "" || !strings.Contains(help, "\n  "+cmd.Name()+" ")) {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
	if strings.Contains(help, "--listen") {
		t.Error("it shows settings")
	}
}

// The help of a command shows its own flags first, then the settings that it reads, and says where the
// other settings are.
func TestHelpOfACommand(t *testing.T) {
	for command, settings := range map[string]string{
		"version":            "",
		"help":               "",
		"status":             "listen auth-token-file",
		"dead-letters retry": "listen auth-token-file",
		"dead-letters show":  "listen auth-token-file",
		"recover":            "data-dir upstream-url upstream-nats-bucket",
		"run":                "listen data-dir upstream-url flush-drain-timeout auth-token-file log-level",
		"selfhost":           "listen data-dir allowed-hosts allowed-origins embedded-latency auth-token-file log-level",
		"drill":              "",
	} {
		help := botwired(t, append(strings.Fields(command), "--help")...)
		if again := botwired(t, append([]string{"help"}, strings.Fields(command)...)...); again.stdout != help.stdout && !slices.Contains([]string{"recover", "run", "selfhost"}, command) {
			t.Errorf("help %s shows\n%s\nand --help\n%s", command, again.stdout, help.stdout)
		}
		own, others, _ := strings.Cut(help.stdout, "\nSettings:\n")
		for _, s := range config.Settings() {
			want := slices.Contains(strings.Fields(settings), s.Flag())
			if got := strings.Contains(others, "--"+s.Flag()+" "); got != want {
				t.Errorf("%s --help shows --%s: %v, want %v", command, s.Flag(), got, want)
			}
		}
		if !strings.Contains(own, "\nFlags:\n") || !strings.Contains(own, "--help ") {
			t.Errorf("%s --help does not show the command's own flags first:\n%s", command, help.stdout)
		}
		if elsewhere := strings.Contains(others, `--help --all" shows the flags of all settings.`); elsewhere != (command == "run") || help.code != cli.ExitOK {
			t.Errorf("%s --help: exit code %d\n%s", command, help.code, help.stdout)
		}
	}
	help := botwired(t, "selfhost", "--help").stdout
	if !strings.Contains(help, "127.0.0.1:2690)") || !strings.Contains(help, "directory of the database") || strings.Contains(help, "journal") {
		t.Errorf("selfhost --help describes the settings of the daemon, not its own:\n%s", help)
	}
	home := t.TempDir()
	var stdout strings.Builder
	p := newProcess(term.Terminal{
		Environ:    []string{"HOME=" + home},
		Stdout:     &stdout,
		Stderr:     io.Discard,
		IsTerminal: term.IsTerminal,
		Size:       term.SizeOf,
	}, []string{"recover", "--help"}, &service.Inherited{})
	if code := p.Run(t.Context()); code != cli.ExitOK || !strings.Contains(strings.Join(strings.Fields(stdout.String()), " "), "(default "+home) {
		t.Errorf("recover --help does not show the default of --data-dir:\n%s", stdout.String())
	}
}

// Only a command that uses the data directory needs a home for it.
func TestCommandsWithoutHome(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status": {200, statusWith(t, "")},
		"GET /memory/ns/k":      {200, `{"value":"v"}`},
	})
	homeless := func(p *cli.Program) { p.Environ = []string{"HOME="} }
	for _, args := range [][]string{{"status"}, {"get", "ns", "k"}, {"config"}} {
		if got := at(t, d, homeless, args...); got.code != cli.ExitOK {
			t.Errorf("%v: %s", args, got.stderr)
		}
	}
	for _, command := range []string{"serve", "selfhost", "recover"} {
		wantFailure(t, at(t, d, homeless, command), cli.ExitError, "set data_dir (--data-dir or BOTWIRED_DATA_DIR)")
	}
	// selfhost gets as far as opening the database: it needs no data directory.
	missing := filepath.Join(t.TempDir(), "typo", "m.db")
	closed := &daemon{address: closedAddress(t)}
	wantFailure(t, at(t, closed, homeless, "selfhost", "--db", missing), cli.ExitError, missing, filepath.Dir(missing)+" does not exist")
	if _, err := os.Stat(filepath.Dir(missing)); !os.IsNotExist(err) {
		t.Errorf("selfhost has made the directory: %v", err)
	}
}

// settingsOf runs "config --json".
func settingsOf(t *testing.T, args ...string) map[string]shownSetting {
	t.Helper()
	got := botwired(t, append([]string{"config", "--json"}, args...)...)
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Fatalf("config %v: exit code %d, stderr %q", args, got.code, got.stderr)
	}
	var printed struct{ Settings []shownSetting }
	if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil {
		t.Fatal(err)
	}
	out := map[string]shownSetting{}
	for _, s := range printed.Settings {
		out[s.Name] = s
	}
	return out
}

func TestSpellingsOfFlags(t *testing.T) {
	for flag, want := range map[string]shownSetting{
		"--flush-linger":         {"flush.linger", "7s", "flag --flush-linger"},
		"--flush.linger":         {"flush.linger", "7s", "flag --flush-linger"},
		"--flush_linger":         {"flush.linger", "7s", "flag --flush-linger"},
		"--latency":              {"embedded.latency", "7s", "flag --embedded-latency"},
		"--flush.drain_timeout":  {"flush.drain_timeout", "7s", "flag --flush-drain-timeout"},
		"--cache.stale-if_error": {"cache.stale_if_error", "7s", "flag --cache-stale-if-error"},
		"--upstream.late_window": {"upstream.late_window", "7s", "flag --upstream-late-window"},
		"--embedded.latency":     {"embedded.latency", "7s", "flag --embedded-latency"},
	} {
		if got := settingsOf(t, flag, "7s")[want.Name]; got != want {
			t.Errorf("%s: %+v, want %+v", flag, got, want)
		}
		if got := settingsOf(t, flag+"=1s", flag+"=7s")[want.Name]; got != want {
			t.Errorf("%s twice: %+v, want the last: %+v", flag, got, want)
		}
	}
	if got := settingsOf(t, "--upstream", "embedded"); got["upstream.url"].Value != "embedded" || got["quota.writes_per_day"].Value != "0" {
		t.Errorf("--upstream embedded: %+v", got)
	}
}

func TestConfigCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	content := "log:\n  level: warn\nupstream.headers: {authorization: Bearer s3cret}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BOTWIRED_CACHE_MEMORY", "1048576")
	got := botwired(t, "config", "--config", file, "--flush.linger", "60s")
	if got.code != cli.ExitOK || got.stderr != "" || strings.Contains(got.stdout, "s3cret") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
	rows := map[string]string{}
	for line := range strings.Lines(got.stdout) {
		fields := strings.Fields(line)
		rows[fields[0]] = strings.Join(fields[1:], " ")
	}
	for name, want := range map[string]string{
		"SETTING":          "VALUE SOURCE",
		"listen":           "127.0.0.1:2689 default",
		"log.level":        "warn file " + file + ":2",
		"upstream.headers": `{"Authorization":"(redacted)"} file ` + file + ":3",
		"cache.memory":     "1MiB environment BOTWIRED_CACHE_MEMORY",
		"flush.linger":     "1m flag --flush-linger",
		"auth.token_file":  "none default",
	} {
		if rows[name] != want {
			t.Errorf("%s is printed as %q, want %q", name, rows[name], want)
		}
	}
	if len(rows) != len(config.Settings())+1 {
		t.Errorf("%d rows for %d settings", len(rows), len(config.Settings()))
	}
}

func TestVersionCommand(t *testing.T) {
	got := botwired(t, "version")
	for _, want := range []string{"botwired ", "\ncommit ", "\ndate ", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH} {
		if got.code != cli.ExitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("version lacks %q: %+v", want, got)
		}
	}
	if got := botwired(t, "--version"); got.code != cli.ExitOK || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("--version is not one line: %+v", got)
	}
	got = botwired(t, "version", "--json")
	var b build.Info
	if err := json.Unmarshal([]byte(got.stdout), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(build.This(), b); diff != "" || b.Version == "" {
		t.Errorf("version --json (-want +got):\n%s", diff)
	}
}

type shownSetting struct{ Name, Value, Source string }
