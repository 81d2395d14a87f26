package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

// All spellings of a list of servers have one canonical form, in which each server has its port.
func TestNATSServers(t *testing.T) {
	for text, want := range map[string][]string{
		"nats://host1":                                   {"nats://host1:4222"},
		"nats://host1:4222,host2:4223":                   {"nats://host1:4222", "nats://host2:4223"},
		"NATS://Host1, nats://host2 ,host1:4222":         {"nats://host1:4222", "nats://host2:4222"},
		"tls://[::1],127.0.0.1:1":                        {"tls://[::1]:4222", "tls://127.0.0.1:1"},
		"nats://host1/,nats-1.nats.default.svc:4222":     {"nats://host1:4222", "nats://nats-1.nats.default.svc:4222"},
		"tls://botwire_nats,tls://other.example.:65535/": {"tls://botwire_nats:4222", "tls://other.example.:65535"},
	} {
		u := load(t, config.Sources{Flags: map[string]string{"upstream.url": text}}).Config.Upstream
		if got := u.Servers(); !slices.Equal(got, want) || u.Kind() != config.KindNATS {
			t.Errorf("%s: %q of kind %d, want %q", text, got, u.Kind(), want)
		}
		again := load(t, config.Sources{Flags: map[string]string{"upstream.url": u.URL}}).Config.Upstream
		if again.URL != u.URL {
			t.Errorf("%s is spelled %s, and that %s", text, u.URL, again.URL)
		}
	}
	for other, want := range map[string]config.Kind{"https://botwire.dev": config.KindBotWire, "embedded": config.KindEmbedded} {
		u := load(t, config.Sources{Flags: map[string]string{"upstream.url": other}}).Config.Upstream
		if got := u.Kind(); got != want {
			t.Errorf("%s is of kind %d, want %d", other, got, want)
		}
	}
}

// A password in the URL is rejected: the error says where it belongs, and does not repeat it.
func TestNATSServersHoldNoSecret(t *testing.T) {
	message := refused(t, config.Sources{Flags: map[string]string{"upstream.url": "nats://me:" + secret + "@host1,me:" + secret + "@host2"}})
	wantAll(t, message, "upstream.url", "upstream.nats.context")
	if strings.Contains(message, secret) {
		t.Errorf("the secret is in %q", message)
	}
}

// TLS is demanded if a URL asks for it, or if a server may be on another machine.
func TestNATSDemandsTLS(t *testing.T) {
	for text, want := range map[string]bool{
		"nats://127.0.0.1,localhost:1,[::1]": false,
		"nats://127.0.0.1,10.0.0.1":          true,
		"nats://nats":                        true,
		"tls://127.0.0.1":                    true,
	} {
		u := load(t, config.Sources{Flags: map[string]string{"upstream.url": text}}).Config.Upstream
		if got := config.DemandsTLS(u.Servers()); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// A cluster is identified by its bucket: its servers and their spelling may change.
func TestNATSIdentity(t *testing.T) {
	for _, servers := range []string{"nats://host1", "tls://host2,host3:1"} {
		c := load(t, config.Sources{Flags: map[string]string{
			"upstream.url": servers, "upstream.nats.bucket": "agents",
		}}).Config
		if got := c.Upstream.Identity(); got != "nats:agents" {
			t.Errorf("%s is %s", servers, got)
		}
	}
	for text, want := range map[string]string{
		"nats:botwire": "nats:botwire", "https://A.example:443/": "https://a.example", "embedded": "embedded",
		"nats://host1": "", "nats:": "", "": "", "nats:a.b": "",
	} {
		if got, ok := config.ParseIdentity(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v", text, got, ok)
		}
	}
}

// The file may nest the settings as deeply as their names.
func TestNATSInAFile(t *testing.T) {
	want := load(t, config.Sources{Flags: map[string]string{
		"upstream.url": "nats://host1", "upstream.nats.bucket": "agents", "upstream.nats.replicas": "5", "upstream.nats.create": "false",
	}}).Config.Upstream
	for _, content := range []string{
		"upstream:\n  url: nats://host1\n  nats: {bucket: agents, replicas: 5, create: false}\n",
		"upstream:\n  url: nats://host1\n  nats.bucket: agents\n  nats:\n    replicas: 5\n    create: false\n",
		"upstream.url: nats://host1\nupstream.nats:\n  bucket: agents\n  replicas: 5\n  create: false\n",
	} {
		if diff := cmp.Diff(want, loadYAML(t, content).Config.Upstream); diff != "" {
			t.Errorf("%s (-flags +file):\n%s", content, diff)
		}
	}
	loadYAML(t, "upstream:\n  nats:\n")
	wantAll(t, refused(t, config.Sources{File: write(t, "config.yaml", "upstream: {nats: {bukket: a}}\n")}), "upstream.nats.bukket", "did you mean upstream.nats.bucket?")
	wantAll(t, refused(t, config.Sources{File: write(t, "config.yaml", "upstream: {nats: {bucket: a}, nats.bucket: b}\n")}), "upstream.nats.bucket", "each setting once")
}

func TestNATSTakesNoHeaders(t *testing.T) {
	flags := map[string]string{"upstream.url": "nats://127.0.0.1", "upstream.headers": `{"Authorization": "` + secret + `"}`}
	message := refused(t, config.Sources{Flags: flags})
	wantAll(t, message, "upstream.headers", "nats://", "upstream.nats.context")
	if strings.Contains(message, secret) {
		t.Errorf("the secret is in %q", message)
	}
	load(t, config.Sources{Flags: map[string]string{"upstream.headers": `{"Authorization": "x"}`, "upstream.nats.bucket": "a"}})
}

// A context is given by its name in NATS' own command line, or by a path.
func TestNATSContext(t *testing.T) {
	folder := t.TempDir()
	environ := home(t, "XDG_CONFIG_HOME="+folder)
	path := filepath.Join(folder, "nats", "context", "memory.json")
	for text, want := range map[string]string{"memory": path, path: path, "none": ""} {
		c := load(t, config.Sources{Environ: environ, Flags: map[string]string{"upstream.nats.context": text}}).Config
		if got := c.Upstream.NATS.Context; got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for mode, warned := range map[os.FileMode]int{0o600: 0, 0o640: 1} {
		if err := errors.Join(os.WriteFile(path, []byte("{}"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		got := load(t, config.Sources{Environ: environ, Flags: map[string]string{"upstream.nats.context": "memory"}}).Warnings
		if runtime.GOOS != "windows" && len(got) != warned {
			t.Errorf("warnings for mode %o: %q", mode, got)
		}
	}
	wantAll(t, refused(t, config.Sources{Environ: []string{}, Flags: map[string]string{"upstream.nats.context": "memory"}}), "upstream.nats.context", "no home directory")
	nested := loadYAML(t, "upstream: {nats: {context: here/memory.json}}\n")
	if got, want := nested.Config.Upstream.NATS.Context, filepath.Join(filepath.Dir(nested.File), "here", "memory.json"); got != want {
		t.Errorf("a path in the file is %s, want %s", got, want)
	}
}

func TestNATSContextIsRead(t *testing.T) {
	n := config.NATS{}
	if got, err := n.Access(); err != nil || got != (config.Access{}) {
		t.Errorf("without one: %+v, %v", got, err)
	}
	n.Context = write(t, "memory.json", `{"description":"d","url":"nats://elsewhere","user":"me","password":" p w ","ca":"/etc/ca.pem","cert":"/c",
		"key":"file:///k","creds":"/creds","nkey":"/nkey","token":"t","tls_first":true,"inbox_prefix":"_INBOX_me","color_scheme":"","socks_proxy":"","windows_ca_certs_match":null}`)
	got, err := n.Access()
	want := config.Access{Creds: "/creds", User: "me", Password: " p w ", Token: "t", NKey: "/nkey", CA: "/etc/ca.pem", Cert: "/c", Key: "/k", TLSFirst: true, InboxPrefix: "_INBOX_me"}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for content, says := range map[string]string{
		"":                                       "a context of NATS in JSON",
		"[1]":                                    "a context of NATS in JSON",
		`{"user":1,"password":"` + secret + `"}`: "a context of NATS in JSON",
		`null`:                                   "a context of NATS in JSON",
		`{"user_jwt":"` + secret + `"}`:          "no user_jwt in it",
		`{"jetstream_domain":"` + secret + `"}`:  "no jetstream_domain in it",
		`{"windows_ca_certs_match":["` + secret + `"]}`: "no windows_ca_certs_match in it",
		`{"creds":"op://vault/` + secret + `"}`:         "the absolute path of a file as its creds",
		`{"nkey":"` + secret + `"}`:                     "the absolute path of a file as its nkey",
		`{"cert":"/c","password":"` + secret + `"}`:     "a cert and its key in it, or neither",
	} {
		n.Context = write(t, "memory.json", content)
		_, err := n.Access()
		if err == nil {
			t.Errorf("%s is read", content)
			continue
		}
		wantAll(t, err.Error(), "upstream.nats.context", n.Context, says)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the secret is in %q", err)
		}
	}
	n.Context = "/nonexistent/memory.json"
	if _, err := n.Access(); err == nil || !strings.Contains(err.Error(), "a readable file") {
		t.Errorf("%v", err)
	}
}

// A value of the wrong kind may also hold a secret: no error shows it.
func TestMisplacedSecretsAreNotShown(t *testing.T) {
	for _, text := range []string{
		"upstream: {url: ['nats://u:" + secret + "@host1', 'nats://u:" + secret + "@host2']}", "upstream: {url: {of: 'nats://u:" + secret + "@host1'}}",
	} {
		message := refused(t, config.Sources{File: write(t, "a.yaml", text+"\n")})
		if strings.Contains(message, secret) || !strings.Contains(message, "(redacted)") {
			t.Errorf("%s: %s", text, message)
		}
	}
}
