package engines

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/journal"
)

// Only the servers can judge credentials that have a key.
func TestCredentialsWithAKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "botwired.creds")
	noError(t, os.WriteFile(file, []byte("-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\r\n  SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\r\n------END USER NKEY SEED------\n"), 0o600))
	noError(t, checkCredentials(file))
}

// The daemon waits for a dead leader only as long as the servers need to elect another.
func TestTimeOfARequestToACluster(t *testing.T) {
	for timeout, want := range map[string]time.Duration{"10s": clusterTimeout, "2s": 2 * time.Second} {
		loaded, err := config.Load(config.Sources{
			Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
			Flags:   map[string]string{"upstream.url": "nats://127.0.0.1:1", "upstream.timeout": timeout, "data_dir": t.TempDir()},
		})
		noError(t, err)
		c := &loaded.Config
		daemon, err := Cluster(c, "host", clusterTimeout, nil)
		noError(t, err)
		if daemon.Timeout != want {
			t.Errorf("with upstream.timeout = %s: %s, want %s", timeout, daemon.Timeout, want)
		}
	}
}

// Each kind opens without its upstream, and its engine is as exact as the journal was told.
func TestEachKindOpens(t *testing.T) {
	for _, url := range []string{"https://botwire.dev", "embedded", "nats://127.0.0.1:1"} {
		loaded, err := config.Load(config.Sources{
			Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
			Flags:   map[string]string{"upstream.url": url, "data_dir": t.TempDir()},
		})
		noError(t, err)
		c := &loaded.Config
		opened, err := Open(t.Context(), c, ofDaemon())
		noError(t, err)
		opened.Configure(c)
		if exact := opened.Exact(); exact != c.Upstream.Kind().Exact() || opened.Forward == nil || exact != (opened.View != nil) || exact != (opened.Host != "") {
			t.Errorf("%s: exact %v, %+v", url, exact, opened)
		}
		noError(t, opened.Close())
	}
}

// A reload's headers go with the next request.
func TestHeadersAreConfigured(t *testing.T) {
	got := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-Key")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer service.Close()
	c := &config.Config{Upstream: config.Upstream{
		URL: service.URL, Timeout: time.Minute, Concurrency: 1, Headers: map[string]string{"x-key": "one"},
	}}
	opened, err := Open(t.Context(), c, ofDaemon())
	noError(t, err)
	for _, want := range []string{"one", "two"} {
		c.Upstream.Headers = map[string]string{"x-key": want}
		opened.Configure(c)
		_, _ = opened.Get(t.Context(), journal.ID{Namespace: "n", Key: "k"}) // only the request matters
		if key := <-got; key != want {
			t.Errorf("upstream gets %q, want %q", key, want)
		}
	}
	noError(t, opened.Close())
}

// ofDaemon returns the options of a daemon whose journal has entries of the namespaces.
func ofDaemon(namespaces ...string) Options {
	return Options{
		Logger: slog.New(slog.DiscardHandler), Chain: via.New(), OnAnswer: func(_, _, _ time.Time) {}, HasToken: func() bool { return false },
		Find: func(accept func(namespace string) bool) (string, error) {
			if i := slices.IndexFunc(namespaces, accept); i >= 0 {
				return namespaces[i], nil
			}
			return "", nil
		},
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A daemon with sealed namespaces does not start without its key file, or with another name key than before: its
// memory would look empty. Another sealing key is only rotated.
func TestKeysThatAStartNeeds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	loaded, err := config.Load(config.Sources{
		Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
		Flags:   map[string]string{"upstream.url": "https://botwire.dev", "data_dir": dir, "seal.key_file": file},
	})
	noError(t, err)
	start := func() string {
		t.Helper()
		opened, err := Open(t.Context(), &loaded.Config, ofDaemon())
		if err != nil {
			return err.Error()
		}
		noError(t, opened.Close())
		return ""
	}
	want := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("the start says %q, not %q", got, part)
			}
		}
		if len(parts) == 0 && got != "" {
			t.Errorf("the start says %q", got)
		}
	}
	write := func(lines ...string) {
		t.Helper()
		noError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	}
	lines := func() (name, sealing string) {
		text := strings.Split(strings.TrimSpace(string(seal.Generate())), "\n")
		return text[len(text)-2], text[len(text)-1]
	}
	want(start(), "there is no "+file, "Bring it back", "Lose the key", "botwired seal keygen "+file)
	name, sealing := lines()
	write(name, sealing)
	want(start())
	other, rotated := lines()
	write(name, rotated)
	want(start())
	write(other, sealing)
	want(start(), file, "Bring the file with that key back", "Lose the key", "remove "+filepath.Join(dir, "SEALED"))
	write(name, sealing)
	want(start())
	write(other, sealing)
	noError(t, os.Remove(filepath.Join(dir, "SEALED")))
	want(start())
}

// What was written to a sealed namespace must not go upstream in the clear because the settings no longer seal it.
func TestNamespacesThatWereSealed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	noError(t, os.WriteFile(file, seal.Generate(), 0o600))
	const refused = "was sealed, and no longer is"
	for _, c := range []struct{ name, namespaces, refused string }{
		{"sealed", `[{"match":"open-*","sealed":false},{"match":"*","sealed":true}]`, ""},
		{"one more that is not", `[{"match":"pub","sealed":false},{"match":"open-*","sealed":false},{"match":"*","sealed":true}]`, ""},
		{"another pattern", `[{"match":"priv-*","sealed":true}]`, "private"},
		{"the first that fits counts", `[{"match":"private","sealed":false},{"match":"*","sealed":true}]`, "private"},
		{"none", "", "private"},
		{"still refused", `[{"match":"priv-*","sealed":true}]`, "private"},
		{"by its name", `[{"match":"private","sealed":true}]`, ""},
	} {
		flags := map[string]string{"upstream.url": "https://botwire.dev", "data_dir": dir}
		if c.namespaces != "" {
			flags["namespaces"], flags["seal.key_file"] = c.namespaces, file
		}
		loaded, err := config.Load(config.Sources{Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()}, Flags: flags})
		noError(t, err)
		opened, err := Open(t.Context(), &loaded.Config, ofDaemon("open-1", "private"))
		switch {
		case err == nil && c.refused == "":
			noError(t, opened.Close())
		case err == nil || !strings.Contains(err.Error(), c.refused+" "+refused):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
