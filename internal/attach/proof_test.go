package attach

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
)

// load returns the configuration of an account with this home.
func load(t *testing.T, home, listen string) *config.Loaded {
	t.Helper()
	loaded, err := config.Load(config.Sources{
		Environ: []string{"HOME=" + home, "LocalAppData=" + home},
		Flags:   map[string]string{"listen": listen, "data_dir": t.TempDir()},
	})
	no(t, err)
	return loaded
}

// listening returns the address of a server.
func listening(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// proving makes a handler a daemon of the configuration's account.
func proving(t *testing.T, loaded *config.Loaded, token string, h http.Handler) http.Handler {
	p := NewProver(loaded)
	p.Prepare(slog.New(slog.DiscardHandler))
	return p.Handler(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != livez {
			h.ServeHTTP(w, r)
		}
	}))
}

// relay passes connections on to another address, and keeps what their clients send.
type relay struct {
	to   string
	mu   sync.Mutex
	sent strings.Builder
}

func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent.Write(p)
}

func (r *relay) listen(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	no(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.pass(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); all.Wait() })
	return listener.Addr().String()
}

func (r *relay) pass(conn net.Conn) {
	defer conn.Close()
	daemon, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(conn, daemon) })
	_, _ = io.Copy(io.MultiWriter(daemon, r), conn)
	_ = daemon.Close()
	back.Wait()
}

var statusAnswer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"version":"1","ready":true,"pending":0,"upstream":{"url":"x","state":"up"}}`)
})

// stating rewrites the proofs of a daemon.
func stating(h http.Handler, rewrite func(proof string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		if proof := got.Header().Get(proofHeader); proof != "" {
			w.Header().Set(proofHeader, rewrite(proof))
		}
		_, _ = w.Write(got.Body.Bytes())
	})
}

// A program that is not the account's daemon gets a challenge, and nothing else. One that passes the challenge on to
// the account's daemon, at another address, proves nothing.
func TestOnlyAProvedDaemonIsUsed(t *testing.T) {
	home, token := t.TempDir(), filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(token, []byte("s3cret"), 0o600))
	mine := func(token string) http.Handler { return proving(t, load(t, home, "127.0.0.1:1"), token, statusAnswer) }
	others := func(token string) http.Handler {
		return proving(t, load(t, t.TempDir(), "127.0.0.1:1"), token, statusAnswer)
	}
	earlier := ""
	for name, test := range map[string]struct {
		daemon  http.Handler
		relayed bool
		token   bool // the client has the token
		want    daemonState
	}{
		"this account's":                      {mine(""), false, false, daemonReady},
		"this account's, with a token":        {mine("s3cret"), false, true, daemonReady},
		"this account's, with another token":  {mine("other"), false, true, daemonReady},
		"another account's":                   {others(""), false, false, daemonForeign},
		"another account's, asked by a token": {others(""), false, true, daemonForeign},
		"another account's, with the token":   {others("s3cret"), false, true, daemonReady},
		"another account's, another token":    {others("guess"), false, true, daemonForeign},
		"a program without proofs":            {statusAnswer, false, false, daemonForeign},
		"a relay":                             {mine(""), true, false, daemonForeign},
		"a relay to a token":                  {others("s3cret"), true, true, daemonForeign},
		"an earlier proof": {stating(mine(""), func(proof string) string {
			if earlier == "" {
				earlier = proof
				return ""
			}
			return earlier
		}), false, false, daemonForeign},
		"one that states another address": {stating(others("s3cret"), func(proof string) string {
			return "anywhere " + strings.Join(strings.Fields(proof)[1:], " ")
		}), false, true, daemonForeign},
		"a container's with the token": {stating(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(proofHeader, "anywhere "+mac(tokenKey("s3cret"), r.Header.Get(challengeHeader), "anywhere"))
			statusAnswer(w, r)
		}), func(proof string) string { return proof }), false, true, daemonReady},
	} {
		t.Run(name, func(t *testing.T) {
			r := &relay{to: listening(t, test.daemon)}
			address := r.listen(t)
			if !test.relayed {
				address = r.to
			}
			loaded := load(t, home, address)
			if test.token {
				loaded.Config.Auth.TokenFile = token
			}
			use, err := newAttachment(Options{Loaded: loaded, Waiting: func(string) {}})
			no(t, err)
			for range 2 {
				if state, err := use.probe(t.Context()); state != test.want || err != nil {
					t.Errorf("state %d, %v", state, err)
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if sent := r.sent.String(); test.relayed && (!strings.HasPrefix(sent, "GET "+livez) || strings.Contains(sent, "status") || strings.Contains(sent, "Authorization")) {
				t.Errorf("sent before the proof: %q", sent)
			}
		})
	}
}

// Commands go on with a daemon that does not prove itself, and say so once.
func TestCommandsTellOfAnUnprovedDaemon(t *testing.T) {
	var told []string
	loaded := load(t, t.TempDir(), listening(t, statusAnswer))
	c, err := Connect(loaded, "1", func(text string) { told = append(told, text) })
	no(t, err)
	for range 2 {
		_, err := c.Status(t.Context())
		no(t, err)
	}
	if len(told) != 1 || !strings.Contains(told[0], loaded.Config.Listen+" does not prove to be this account's") {
		t.Errorf("told %q", told)
	}
}

// A command with a token sends nothing to a program that does not prove to have it.
func TestATokenIsNeverSentUnproved(t *testing.T) {
	loaded := load(t, t.TempDir(), listening(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != livez || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s, with %q", r.URL, r.Header.Get("Authorization"))
		}
	})))
	loaded.Config.Auth.TokenFile = filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(loaded.Config.Auth.TokenFile, []byte("s3cret"), 0o600))
	c, err := Connect(loaded, "1", nil)
	no(t, err)
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "does not prove to have the token in "+loaded.Config.Auth.TokenFile) {
		t.Error(err)
	}
}

// A daemon that a command has started beside another program is found by its data directory.
func TestTheDaemonAtAnotherPort(t *testing.T) {
	var told []string
	home := t.TempDir()
	loaded := load(t, home, listening(t, statusAnswer))
	mine := listening(t, proving(t, loaded, "", statusAnswer))
	no(t, writeOwn(loaded.Config.DataDir, addressFile, mine))
	use, err := newAttachment(Options{Loaded: loaded, Elsewhere: func(text string) { told = append(told, text) }})
	no(t, err)
	for range 2 {
		if state, err := use.probe(t.Context()); state != daemonReady || err != nil {
			t.Errorf("state %d, %v", state, err)
		}
	}
	if at := use.client.reach.address(); at != mine || len(told) != 1 || !strings.Contains(told[0], mine) {
		t.Errorf("at %s, told %q", at, told)
	}
}

// A challenge ends with its context, also if nobody answers.
func TestASilentProgramProvesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	loaded := load(t, t.TempDir(), listening(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})))
	use, err := newAttachment(Options{Loaded: loaded})
	no(t, err)
	if conn, err := use.client.reach.dial(ctx); conn != nil || !errors.Is(err, context.Canceled) {
		t.Error(conn, err)
	}
}

// A program that does not answer costs a command its patience once, and not at each look: the daemon that the command
// starts beside it is found at once. Later it is asked again.
func TestASilentProgramIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	loaded := load(t, t.TempDir(), listening(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	})))
	mine := listening(t, proving(t, loaded, "", statusAnswer))
	use, err := newAttachment(Options{Loaded: loaded})
	no(t, err)
	use.client.reach.patience = 20 * time.Millisecond
	for range 3 {
		if state, err := use.probe(t.Context()); state != daemonForeign || err != nil {
			t.Errorf("state %d, %v", state, err)
		}
	}
	if _, err := use.client.reach.dial(t.Context()); err == nil || !strings.Contains(err.Error(), "hangs, or is stopped") || !isUnsent(err) {
		t.Error(err)
	}
	no(t, writeOwn(loaded.Config.DataDir, addressFile, mine))
	if state, err := use.probe(t.Context()); state != daemonReady || err != nil {
		t.Errorf("state %d, %v", state, err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	use.client.reach.at, use.client.reach.until = "", time.Time{}
	if _, err := use.probe(t.Context()); err != nil || asked.Load() != 2 {
		t.Errorf("later it was asked %d times, %v", asked.Load(), err)
	}
}

// A secret counts only if no other account can have read or written it.
func TestASecretThatOthersMayKnow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, secretFile)
	no(t, writeOwn(dir, secretFile, "x"))
	if readOwn(dir, secretFile) != "x" {
		t.Error("its own file is not read")
	}
	no(t, os.Rename(path, path+".2"))
	no(t, os.Symlink(path+".2", path))
	if readOwn(dir, secretFile) != "" {
		t.Error("a link is followed")
	}
	no(t, os.Remove(path))
	no(t, os.WriteFile(path, []byte("x"), 0o600))
	no(t, os.Chmod(path, 0o640))
	if _, known := ownerOf(stat(t, path)); known && readOwn(dir, secretFile) != "" {
		t.Error("the group may read it")
	}
	if os.Geteuid() != 0 {
		return
	}
	no(t, os.Chmod(path, 0o600))
	no(t, os.Chown(path, 12345, 12345))
	if readOwn(dir, secretFile) != "" {
		t.Error("another account's file is read")
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	info, err := os.Stat(path)
	no(t, err)
	return info
}
