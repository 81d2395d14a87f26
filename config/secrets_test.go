package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

const secret = "s3cret"

func TestSecretsAreNotPrinted(t *testing.T) {
	loaded := loadYAML(t, "upstream.headers:\n  authorization: Bearer "+secret+"\n")
	if got := loaded.Config.Upstream.Headers["Authorization"]; got != "Bearer "+secret {
		t.Errorf("Authorization: %q", got)
	}
	if got, want := value(loaded, "upstream.headers"), `{"Authorization":"(redacted)"}`; got != want {
		t.Errorf("printed %s, want %s", got, want)
	}
	if strings.Contains(fmt.Sprint(loaded.Values), secret) {
		t.Errorf("the secret is in %v", loaded.Values)
	}
}

func TestSecretsAreNotInErrors(t *testing.T) {
	file := func(content string) config.Sources { return config.Sources{File: write(t, "config.yaml", content)} }
	flag := func(name, value string) config.Sources {
		return config.Sources{Flags: map[string]string{name: value}}
	}
	for name, src := range map[string]config.Sources{
		"malformed JSON":          flag("upstream.headers", `{"Authorization": "s3cret"`),
		"not a mapping":           flag("upstream.headers", "Authorization: s3cret"),
		"malformed value":         flag("upstream.headers", `{"Authorization": "s3cret\n"}`),
		"reserved":                flag("upstream.headers", `{"Host": "s3cret"}`),
		"swapped":                 flag("upstream.headers", `{"Bearer s3cret": "Authorization"}`),
		"twice":                   file("upstream:\n  headers: {a: s3cret}\nupstream.headers: {a: s3cret}\n"),
		"number":                  file("upstream.headers: {a: [s3cret]}\n"),
		"URL with user":           flag("upstream.url", "https://me:s3cret@botwire.dev"),
		"URL with user, no slash": flag("upstream.url", "me:s3cret@botwire.dev"),
		"URL with query":          flag("upstream.url", "https://botwire.dev?token=s3cret"),
		"URL with fragment":       flag("upstream.url", "https://botwire.dev#s3cret"),
		"unknown token":           {Environ: home(t, "BOTWIRED_AUTH_TOKEN=s3cret")},
		"unknown headers":         file("upstream:\n  header: {a: s3cret}\n"),
		"unknown URL":             {Environ: home(t, "BOTWIRED_UPSTREAM=https://me:s3cret@a")},
		"YAML":                    file("a: |s3cret\n x\n"),
		"flow YAML":               file("upstream: {headers: {a: s3cret}\n"),
		"token file":              flag("auth.token_file", write(t, "token", "two s3cret")),
		"header file":             flag("upstream.headers", `{"a": {"file": "`+write(t, "header", "s3cret\nand more")+`"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			if message := refused(t, src); strings.Contains(message, secret) {
				t.Errorf("the secret is in %q", message)
			}
		})
	}
}

func TestHeadersFromFiles(t *testing.T) {
	path := write(t, "authorization", "Bearer "+secret+"\r\n")
	loaded := loadYAML(t, "upstream:\n  headers:\n    Authorization: {file: "+path+"}\n    x-team: 'red'\n")
	want := map[string]string{"Authorization": "Bearer " + secret, "X-Team": "red"}
	if diff := cmp.Diff(want, loaded.Config.Upstream.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	file := write(t, "config.yaml", "upstream:\n  headers:\n    X-A: b\n    X-B: {file: "+missing+"}\n")
	wantAll(t, refused(t, config.Sources{File: file}),
		"upstream.headers: X-B = (redacted)", file+":4", "readable file at", missing, "no such file")
}

func TestToken(t *testing.T) {
	c := load(t, config.Sources{}).Config
	if token, err := c.Token(); token != "" || err != nil {
		t.Errorf("without a file: %q, %v", token, err)
	}
	path := write(t, "token", "  abc-123 \n")
	loaded := load(t, config.Sources{Flags: map[string]string{"auth.token_file": path}})
	if token, err := loaded.Config.Token(); token != "abc-123" || err != nil {
		t.Errorf("Token = %q, %v", token, err)
	}
	if len(loaded.Warnings) != 0 {
		t.Errorf("warnings for mode 0600: %v", loaded.Warnings)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	loaded = load(t, config.Sources{Flags: map[string]string{"auth.token_file": path}})
	if len(loaded.Warnings) != 1 || !strings.Contains(loaded.Warnings[0], "mode 0644") {
		t.Errorf("warnings for mode 0644: %q", loaded.Warnings)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := loaded.Config.Token(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "auth.token_file") {
		t.Errorf("after its removal: %v", err)
	}
	for _, content := range []string{"", " \n", "two words", "two\nlines", "caf\xc3\xa9"} {
		message := refused(t, config.Sources{Flags: map[string]string{"auth.token_file": write(t, "token", content)}})
		wantAll(t, message, "auth.token_file", "flag --auth-token-file", "token")
	}
}
