package doctor

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/proof/loopback"
)

// newPatient returns an examination of a healthy world: nothing runs, and the disk is good. settings
// are flags, by setting name; settings with the value "" have their defaults.
func newPatient(t *testing.T, settings map[string]string, environ ...string) *examination {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"data_dir": dir, "upstream.url": "embedded", "listen": closedAddress(t)}
	for name, value := range settings {
		values[name] = value
		if value == "" {
			delete(values, name)
		}
	}
	environ = append([]string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()}, environ...)
	e := newExamination(Options{Sources: config.Sources{Flags: values, Environ: environ}, Reader: io.Discard})
	e.look = func(string) (Volume, error) {
		return Volume{Type: "ext4", Kind: Local, Free: 10 << 30}, nil
	}
	return e
}

// healthy is the status of a healthy daemon.
const healthy = `{"version":"VERSION","data_dir":"<dir>","upstream":{"url":"embedded","state":"up"},"pending":0,
	"summary":{"level":"ok","text":"All is well","remedy":null},
	"callers":[{"agent":"python-requests/2.31","requests":3,"last_at":"2026-11-22T10:00:00Z"}],
	"namespaces":[{"namespace":"chats","pending":0,"quota":{"limit":1000,"left":900,"resets_at":"2026-11-23T00:00:00Z"}}]}`

// withDaemon adds a daemon whose status is healthy with parts replaced.
func withDaemon(t *testing.T, replace ...string) *examination {
	t.Helper()
	return withDaemonAnd(t, nil, nil, replace...)
}

// withDaemonAnd also sets settings and variables of the patient's shell.
func withDaemonAnd(t *testing.T, settings map[string]string, environ []string, replace ...string) *examination {
	t.Helper()
	answer := http.HandlerFunc(http.NotFound)
	address := newDaemon(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) })
	all := map[string]string{"listen": address}
	maps.Copy(all, settings)
	e := newPatient(t, all, append(environ, "BOTWIRE_URL=http://"+address)...)
	text := strings.NewReplacer(replace...).Replace(healthy)
	text = strings.NewReplacer("VERSION", e.version, "<dir>", e.loaded.Config.DataDir).Replace(text)
	prover := attach.NewProver(e.loaded)
	prover.Prepare(slog.New(slog.DiscardHandler))
	answer = prover.Handler("", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })).ServeHTTP
	e.now = func() time.Time { return time.Date(2026, 11, 22, 10, 1, 0, 0, time.UTC) }
	return e
}

// newDaemon returns the address of a server.
func newDaemon(t *testing.T, answer http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// closedAddress returns a loopback address where nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.FreeAddress(t.Context())
	no(t, err)
	return address
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// examine returns the findings of all checks.
func examine(t *testing.T, e *examination) []Finding {
	t.Helper()
	return runAll(t.Context(), e.checks(), time.Minute)
}

// finding returns the only finding with a name.
func finding(t *testing.T, all []Finding, name string) Finding {
	t.Helper()
	var found []Finding
	for _, f := range all {
		if f.Name == name {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d findings about %s: %+v", len(found), name, all)
	}
	return found[0]
}

// wantFinding checks a finding.
func wantFinding(t *testing.T, all []Finding, name string, result Result, remedy string, parts ...string) {
	t.Helper()
	f := finding(t, all, name)
	if f.Result != result || f.Remedy != remedy {
		t.Errorf("%s: %s, remedy %q, want %s and %q: %s", name, f.Result, f.Remedy, result, remedy, f.Text)
	}
	for _, part := range parts {
		if !strings.Contains(f.Text, part) {
			t.Errorf("%s: %q does not contain %q", name, f.Text, part)
		}
	}
	if strings.Contains(f.Text+f.Remedy, "s3cret") {
		t.Errorf("%s shows a secret: %+v", name, f)
	}
}

func TestDoctorOfAHealthyDaemon(t *testing.T) {
	for _, f := range examine(t, withDaemon(t)) {
		if f.Result != OK && f.Result != NotApplicable || f.Remedy != "" || f.Text == "" {
			t.Errorf("%+v", f)
		}
	}
}

// A daemon that does not prove to be this account's may have another account's memory.
func TestDoctorOfAnotherAccountsDaemon(t *testing.T) {
	e := withDaemon(t)
	e.loaded.UserDir, e.loaded.Config.DataDir = t.TempDir(), t.TempDir()
	all := examine(t, e)
	wantFinding(t, all, "daemon", Warning, "export BOTWIRED_LISTEN=127.0.0.1:2700", "does not prove to be this account's", "another account's")
	wantFinding(t, all, "token file", NotApplicable, "", "every account of this machine", "auth.token_file")
}

func TestDoctorWithoutADaemon(t *testing.T) {
	e := newPatient(t, nil)
	all := examine(t, e)
	wantFinding(t, all, "daemon", Warning, "botwired serve", "none answers at "+e.loaded.Config.Listen)
	agents := newPatient(t, nil, "BOTWIRE_URL=http://"+e.loaded.Config.Listen)
	wantFinding(t, examine(t, agents), "daemon", Failed, "botwired serve", "the agents of this shell")
	for _, f := range all {
		if f.Result == Failed || f.Result == Warning && f.Name != "daemon" && f.Name != "BOTWIRE_URL" {
			t.Errorf("%+v", f)
		}
	}
	if Worst(all) != Warning {
		t.Errorf("the worst is %s", Worst(all))
	}
}

// Each case breaks one thing in the daemon's status.
func TestDoctorReadsTheStatus(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string
		check   string
		result  Result
		remedy  string
		parts   []string
	}{
		"another version": {[]string{"VERSION", "v0.0.1"}, "daemon", Warning, "botwired serve", []string{"v0.0.1"}},
		"no callers":      {[]string{`{"agent":"python-requests/2.31","requests":3,"last_at":"2026-11-22T10:00:00Z"}`, ""}, "callers", Warning, "export BOTWIRE_URL=http://ADDRESS", []string{"no agent has asked"}},
		"only commands":   {[]string{"python-requests/2.31", "botwired/v1.0.0"}, "callers", Warning, "export BOTWIRE_URL=http://ADDRESS", []string{"no agent has asked"}},
		"old callers":     {[]string{"2026-11-22T10:00:00Z", "2026-11-22T08:00:00Z"}, "callers", Warning, "export BOTWIRE_URL=http://ADDRESS", []string{"python-requests/2.31", "08:00:00"}},
		"a warning":       {[]string{`"level":"ok","text":"All is well"`, `"level":"warning","text":"Upstream is down"`}, "status", Warning, "botwired status", []string{"Upstream is down"}},
		"refused writes":  {[]string{`"level":"ok","text":"All is well"`, `"level":"critical","text":"The disk is full"`}, "status", Failed, "botwired status", []string{"disk is full"}},
		"few inodes":      {[]string{`"pending":0,`, `"pending":0,"disk":{"free_bytes":1048576},`}, "disk", Failed, "df -h <dir>", []string{"1.0MiB free, and botwired refuses writes below"}},
		"conflicts":       {[]string{`"pending":0,`, `"pending":0,"dead_letters":0,"conflicts":2,`}, "dead letters", OK, "", []string{"0; 2 conflicts decided by time: botwired history --lost"}},
		"an open letter":  {[]string{`"pending":0,`, `"pending":0,"dead_letters":1,"open_dead_letters":1,`}, "dead letters", Warning, "botwired dead-letters", []string{"1: 1 to decide on"}},
		"quota by a 429":  {[]string{`"left":900`, `"left":0,"used":100`}, "quota", Warning, "botwired pending --namespace chats", []string{"upstream says", "HTTP 429", "100 of 1000"}},
		"quota used up":   {[]string{`"left":900`, `"left":0,"used":1000`}, "quota", Warning, "botwired pending --namespace chats", []string{"used up its 1000 writes", "2026-11-23T00:00:00Z"}},
		"quota is short":  {[]string{`"pending":0,"quota":{"limit":1000,"left":900`, `"pending":22,"waits":{"why":"quota: spread"},"quota":{"limit":40,"left":2,"linger_seconds":6480`}, "quota", Warning, "botwired flush", []string{"2 of 40 writes left: the last of 22 pending writes goes out "}},
		"quota runs out":  {[]string{`"left":900`, `"left":90,"runs_out_at":"2026-11-22T18:00:00Z"`}, "quota", Warning, "export BOTWIRED_QUOTA_WRITES_PER_DAY=N", []string{"90 of 1000", "18:00:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := withDaemon(t, c.replace...)
			remedy := strings.NewReplacer("ADDRESS", e.loaded.Config.Listen, "<dir>", e.loaded.Config.DataDir).Replace(c.remedy)
			wantFinding(t, examine(t, e), c.check, c.result, remedy, c.parts...)
		})
	}
}

// People see times as relative.
func TestDoctorSaysTimesAsPeopleDo(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 3, 0, time.UTC)
	e := &examination{now: func() time.Time { return now }, reader: &term.Screen{Writer: io.Discard, Columns: 80, Now: func() time.Time { return now }}}
	var s api.Status
	if err := json.Unmarshal([]byte(strings.Replace(healthy, `"left":900`, `"left":0,"used":1000`, 1)), &s); err != nil {
		t.Fatal(err)
	}
	if got := e.callers(&s).Text; !strings.HasSuffix(got, "python-requests/2.31 3 seconds ago") {
		t.Errorf("callers: %s", got)
	}
	if got := e.quotas(&s).Text; !strings.Contains(got, "gets new ones in 14 hours") {
		t.Errorf("quota: %s", got)
	}
}

// Another program at the address is not reported as a daemon, nor as nothing.
func TestDoctorOfAnotherProgram(t *testing.T) {
	for name, page := range map[string]http.HandlerFunc{
		"a page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello")) },
		"some JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":"1"}`)) },
		"not found":  http.NotFound,
		"a selfhost": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"detail":"Not Found"}`, 404) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(page)
			defer server.Close()
			all := examine(t, newPatient(t, map[string]string{"listen": server.Listener.Addr().String()}))
			f := finding(t, all, "daemon")
			if f.Result != Failed || !strings.Contains(f.Text, "another program") || !strings.HasPrefix(f.Remedy, "export BOTWIRED_LISTEN=") {
				t.Errorf("%+v", f)
			}
			wantFinding(t, all, "callers", NotApplicable, "")
		})
	}
}

func TestDoctorNeedsTheToken(t *testing.T) {
	address := newDaemon(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"detail":"a token is needed"}`, http.StatusUnauthorized)
	})
	all := examine(t, newPatient(t, map[string]string{"listen": address}))
	wantFinding(t, all, "daemon", Failed, "export BOTWIRED_AUTH_TOKEN_FILE=FILE", "a token is needed")
	wantFinding(t, all, "token file", NotApplicable, "", "the daemon wants a token", "auth.token_file names none here")
}

// If the configuration is invalid, doctor reports only that.
func TestDoctorOfAFaultyConfiguration(t *testing.T) {
	all := examine(t, newPatient(t, map[string]string{"flush.linger": "soon", "cache.disk": "1"}))
	if len(all) != 3 || all[0].Result != Failed || !strings.Contains(all[0].Text+all[1].Text, "flush.linger") ||
		all[0].Remedy != "correct --cache-disk" || all[1].Remedy != "correct --flush-linger" || all[2].Result != NotApplicable {
		t.Errorf("%+v", all)
	}
	all = examine(t, newPatient(t, map[string]string{"upstream.url": "ftp://x"}))
	wantFinding(t, all, "configuration", Failed, "correct --upstream (--upstream-url)", "ftp://x")
	all = examine(t, newPatient(t, nil, "BOTWIRED_FLUSH_LINGER=soon"))
	wantFinding(t, all, "configuration", Failed, "botwired config validate", "flush.linger")
}
