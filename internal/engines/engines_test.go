package engines

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
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
		opened, err := Open(t.Context(), c, ofDaemon(t))
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
	opened, err := Open(t.Context(), c, ofDaemon(t))
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

// ofDaemon returns the options of a daemon with an empty journal.
func ofDaemon(t *testing.T) Options {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(t.TempDir(), "journal")})
	noError(t, err)
	t.Cleanup(func() { noError(t, j.Close()) })
	return Options{
		Logger: slog.New(slog.DiscardHandler), Chain: via.New(), HasToken: func() bool { return false },
		Journal: j,
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
