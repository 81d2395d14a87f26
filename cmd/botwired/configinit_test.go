package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli"
)

// inHome runs the program in the home directory that newHome has set.
func inHome(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// fields returns the words of each line.
func fields(text string) (lines [][]string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

func TestConfigInit(t *testing.T) {
	home := newHome(t)
	printed := inHome(t, "config", "init")
	if want := config.Sample([]string{"HOME=" + home}); printed.stdout != want || printed != inHome(t, "config", "init", "-") {
		t.Errorf("printed:\n%s", printed.stdout)
	}
	place := config.DefaultFile(os.Environ())
	wantOutput(t, inHome(t, "config", "init", place),
		"written  "+place+"\nuse      every command reads it from there\ncheck    botwired config validate "+place+"\n")
	if content, err := os.ReadFile(place); err != nil || string(content) != printed.stdout {
		t.Errorf("written: %q, %v", content, err)
	}
	if got := inHome(t, "config"); got.code != cli.ExitOK {
		t.Errorf("botwired does not take its own sample: %s", got.stderr)
	}
}

func TestConfigInitReplacesNothing(t *testing.T) {
	newHome(t)
	place := filepath.Join(t.TempDir(), "my config.yaml")
	if err := os.WriteFile(place, []byte("listen: 127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, inHome(t, "config", "init", place), cli.ExitError, place+" exists", "--force")
	if content, _ := os.ReadFile(place); string(content) != "listen: 127.0.0.1:1\n" {
		t.Errorf("it was replaced by %q", content)
	}
	got := inHome(t, "config", "init", "--force", place)
	if !strings.Contains(got.stdout, "export BOTWIRED_CONFIG='"+place+"'") || got.code != cli.ExitOK {
		t.Errorf("%+v", got)
	}
	if content, _ := os.ReadFile(place); !strings.HasPrefix(string(content), "# botwired's configuration") {
		t.Errorf("it was not replaced: %q", content)
	}
	wantFailure(t, inHome(t, "config", "init", filepath.Join(place, "x")), cli.ExitError, "is not a directory")
	wantFailure(t, inHome(t, "config", "init", "a", "b"), cli.ExitUsage, `"botwired config init" takes 1 argument, and got 2: botwired config init`)
}

func TestConfigValidate(t *testing.T) {
	newHome(t)
	wantOutput(t, inHome(t, "config", "validate"), "valid    no file\ndiffers  nothing: every setting has its default\n")
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\nflush.linger: 1s\ncache.fresh_for: 10s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BOTWIRED_LOG_LEVEL", "debug")
	shown := inHome(t, "config", "validate", file)
	want := [][]string{
		{"valid", file}, {}, {"SETTING", "VALUE", "DEFAULT", "SOURCE", "CHANGES", "AT"},
		{"listen", "127.0.0.1:1", "127.0.0.1:2689", "file", file + ":1", "restart"},
		{"flush.linger", "1s", "100ms", "file", file + ":2", "SIGHUP"},
		{"log.level", "debug", "info", "environment", "BOTWIRED_LOG_LEVEL", "SIGHUP"},
	}
	if diff := cmp.Diff(want, fields(shown.stdout)); diff != "" || shown.code != cli.ExitOK {
		t.Errorf("%+v (-want +got):\n%s", shown, diff)
	}
}

func TestConfigOfANamespace(t *testing.T) {
	newHome(t)
	file := filepath.Join(t.TempDir(), "a.yaml")
	content := "flush.linger: 1s\nnamespaces:\n  - {match: '*', offline: assume-absent}\n  - {match: a-*, flush.linger: 2s}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for namespace, linger := range map[string][]string{
		"a-1": {"flush.linger", "2s", "file", file + ":4,", "match:", "a-*"},
		"b-1": {"flush.linger", "1s", "file", file + ":1"},
	} {
		shown := fields(inHome(t, "config", "--config", file, "--namespace", namespace).stdout)
		validated := fields(inHome(t, "config", "validate", file, "--namespace", namespace).stdout)
		if diff := cmp.Diff(shown, validated[2:]); diff != "" {
			t.Errorf("config and validate differ:\n%s", diff)
		}
		for _, want := range [][]string{linger, {"offline", "assume-absent", "file", file + ":3,", "match:", "*"}, {"sealed", "false", "default"}} {
			if !slices.ContainsFunc(shown, func(row []string) bool { return slices.Equal(row, want) }) {
				t.Errorf("%s: no row %q in %q", namespace, want, shown)
			}
		}
	}
	wantFailure(t, inHome(t, "config", "--namespace", "a:1"), cli.ExitError, `--namespace "a:1"`, "letters, digits")
	wantFailure(t, inHome(t, "config", "validate", ""), cli.ExitUsage, "argument 1 is empty")
	wantFailure(t, inHome(t, "config", "--config", ""), cli.ExitUsage, `--config = "": expected a path`)
}

func TestConfigValidateShowsEveryError(t *testing.T) {
	newHome(t)
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("listn: 127.0.0.1:1\nflush.linger: soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := inHome(t, "config", "validate", file)
	want := `listn = "127.0.0.1:1" (file ` + file + `:1): expected one of the settings that "botwired config" lists; did you mean listen?` + "\n" +
		`flush.linger = "soon" (file ` + file + ":2): expected a duration, zero or more, such as 200ms, 1m30s or 2d\n"
	if got.stdout != want || got.stderr != "botwired: the configuration is not valid: 2 errors\n" || got.code != cli.ExitError {
		t.Errorf("%+v\nwant %s", got, want)
	}
	if got := inHome(t, "config", "validate", "--config", file); got.stdout != want {
		t.Errorf("with --config: %+v", got)
	}
}
