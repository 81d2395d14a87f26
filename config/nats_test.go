package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

// All spellings of a list of servers are one, and each server has its port.
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
		if got := u.Servers(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		again := load(t, config.Sources{Flags: map[string]string{"upstream.url": u.URL}}).Config.Upstream
		if again.URL != u.URL {
			t.Errorf("%s is spelled %s, and that %s", text, u.URL, again.URL)
		}
	}
	for _, other := range []string{"https://botwire.dev", "embedded"} {
		u := load(t, config.Sources{Flags: map[string]string{"upstream.url": other}}).Config.Upstream
		if got := u.Servers(); got != nil {
			t.Errorf("%s has servers: %q", other, got)
		}
	}
}

// A password in the URL is refused with the place where it belongs, and is not repeated.
func TestNATSServersHoldNoSecret(t *testing.T) {
	message := refused(t, config.Sources{Flags: map[string]string{"upstream.url": "nats://me:" + secret + "@host1,me:" + secret + "@host2"}})
	wantAll(t, message, "upstream.url", "upstream.nats.user", "upstream.nats.password_file", "upstream.nats.credentials_file")
	if strings.Contains(message, secret) {
		t.Errorf("the secret is in %q", message)
	}
}

// TLS is demanded wherever a server is asked for it or may be on another machine.
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

// A cluster is known by its bucket: it may get other servers, and another spelling.
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

// The file may nest the settings as deep as their names.
func TestNATSInAFile(t *testing.T) {
	want := load(t, config.Sources{Flags: map[string]string{
		"upstream.url": "nats://host1", "upstream.nats.bucket": "agents", "upstream.nats.replicas": "5", "upstream.nats.monitors": `["http://host1:8222/"]`,
	}}).Config.Upstream
	for _, content := range []string{
		"upstream:\n  url: nats://host1\n  nats: {bucket: agents, replicas: 5, monitors: ['http://host1:8222']}\n",
		"upstream:\n  url: nats://host1\n  nats.bucket: agents\n  nats:\n    replicas: 5\n    monitors: ['http://host1:8222']\n",
		"upstream.url: nats://host1\nupstream.nats:\n  bucket: agents\n  replicas: 5\n  monitors: ['http://host1:8222']\n",
	} {
		if diff := cmp.Diff(want, loadYAML(t, content).Config.Upstream); diff != "" {
			t.Errorf("%s (-flags +file):\n%s", content, diff)
		}
	}
	loadYAML(t, "upstream:\n  nats:\n")
	wantAll(t, refused(t, config.Sources{File: write(t, "config.yaml", "upstream: {nats: {bukket: a}}\n")}), "upstream.nats.bukket", "did you mean upstream.nats.bucket?")
	wantAll(t, refused(t, config.Sources{File: write(t, "config.yaml", "upstream: {nats: {bucket: a}, nats.bucket: b}\n")}), "upstream.nats.bucket", "each setting once")
}

func TestNATSSettingsThatDoNotFit(t *testing.T) {
	nats := map[string]string{"upstream.url": "nats://127.0.0.1"}
	for name, row := range map[string]struct {
		set  map[string]string
		says []string
	}{
		"two ways to sign in":         {map[string]string{"upstream.nats.user": "me", "upstream.nats.credentials_file": "/c"}, []string{"upstream.nats.user", "upstream.nats.credentials_file"}},
		"a user without a password":   {map[string]string{"upstream.nats.user": "me"}, []string{"upstream.nats.user", "upstream.nats.password_file"}},
		"a password without a user":   {map[string]string{"upstream.nats.password_file": "/p"}, []string{"upstream.nats.password_file", "upstream.nats.user"}},
		"a certificate without a key": {map[string]string{"upstream.nats.cert_file": "/c"}, []string{"upstream.nats.cert_file", "upstream.nats.key_file"}},
		"a key without a certificate": {map[string]string{"upstream.nats.key_file": "/k"}, []string{"upstream.nats.key_file", "upstream.nats.cert_file"}},
		"headers":                     {map[string]string{"upstream.headers": `{"Authorization": "` + secret + `"}`}, []string{"upstream.headers", "nats://"}},
	} {
		t.Run(name, func(t *testing.T) {
			flags := map[string]string{}
			for _, some := range []map[string]string{nats, row.set} {
				for setting, value := range some {
					flags[setting] = value
				}
			}
			message := refused(t, config.Sources{Flags: flags})
			wantAll(t, message, row.says...)
			if strings.Contains(message, secret) {
				t.Errorf("the secret is in %q", message)
			}
		})
	}
	load(t, config.Sources{Flags: map[string]string{"upstream.headers": `{"Authorization": "x"}`, "upstream.nats.bucket": "a"}})
}

// A password is the file's line, whatever ends it.
func TestNATSPassword(t *testing.T) {
	n := config.NATS{User: "me", PasswordFile: write(t, "password", " p w \r\n")}
	if got, err := n.Password(); got != " p w " || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := (&config.NATS{}).Password(); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, file := range []string{"/nonexistent/password", write(t, "password", "\n")} {
		_, err := (&config.NATS{User: "me", PasswordFile: file}).Password()
		if err == nil {
			t.Fatalf("%s has a password", file)
		}
		wantAll(t, err.Error(), "upstream.nats.password_file", file)
	}
}

// A value of another kind than expected may hold a secret as well: no error shows it.
func TestMisplacedSecretsAreNotShown(t *testing.T) {
	for _, text := range []string{
		"upstream: {url: ['nats://u:" + secret + "@host1', 'nats://u:" + secret + "@host2']}", "upstream: {url: {of: 'nats://u:" + secret + "@host1'}}",
		"upstream: {nats: {monitors: ['http://u:" + secret + "@host1:8222']}}", "upstream: {nats: {monitors: 'http://u:" + secret + "@host1:8222'}}",
		"upstream: {nats: {monitors: ['http://host1:8222/?token=" + secret + "']}}", "upstream: {nats: {monitors: [['http://u:" + secret + "@host1:8222']]}}",
	} {
		message := refused(t, config.Sources{File: write(t, "a.yaml", text+"\n")})
		if strings.Contains(message, secret) || !strings.Contains(message, "(redacted)") {
			t.Errorf("%s: %s", text, message)
		}
	}
}
