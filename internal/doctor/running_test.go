package doctor

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A daemon with other settings is examined with its own: nothing asks this shell's upstream, nor checks
// its data directory.
func TestDoctorExaminesWhatTheDaemonUses(t *testing.T) {
	dir := t.TempDir()
	no(t, os.Chmod(dir, 0o700))
	e := withDaemonAnd(t, map[string]string{"data_dir": "", "upstream.url": ""}, nil, "<dir>", filepath.ToSlash(dir))
	dir = filepath.ToSlash(dir)
	here := func(what, looked string) {
		if !strings.HasPrefix(filepath.ToSlash(looked), dir) {
			t.Errorf("doctor examines the %s of %s, and not that of %s", what, looked, dir)
		}
	}
	look := e.look
	e.look = func(d string) (Volume, error) { here("disk", d); return look(d) }

	all := examine(t, e)
	wantFinding(t, all, "upstream", NotApplicable, "", "inside the daemon")
	for _, name := range []string{"data directory", "disk"} {
		wantFinding(t, all, name, OK, "", dir)
	}
	if worst := Worst(all); worst != OK {
		t.Errorf("the worst is %s: %+v", worst, all)
	}
}

// This shell's headers are only for its own upstream. If the daemon's upstream refuses a request
// without the daemon's headers, that is not a failure.
func TestDoctorKeepsHeadersFromTheDaemonsUpstream(t *testing.T) {
	asked := make(chan http.Header, mostProbes)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		http.Error(w, `{"detail":"a key is needed"}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "key")
	no(t, os.WriteFile(file, []byte("s3cret"), 0o600))
	headers := []string{`BOTWIRED_UPSTREAM_HEADERS={"Authorization": {"file": "` + filepath.ToSlash(file) + `"}}`}
	ask := func(own string) []Finding {
		return examine(t, withDaemonAnd(t, map[string]string{"upstream.url": own}, headers, `"url":"embedded"`, `"url":"`+server.URL+`"`))
	}

	all := ask("embedded")
	wantFinding(t, all, "upstream", NotApplicable, "", "HTTP 401: a key is needed", "upstream.headers")
	if got := (<-asked).Get("Authorization"); got != "" {
		t.Errorf("the daemon's upstream got Authorization: %s", got)
	}
	f := finding(t, ask(server.URL), "upstream")
	if got := (<-asked).Get("Authorization"); got != "s3cret" || f.Result != Failed {
		t.Errorf("upstream got Authorization: %q, and %+v", got, f)
	}
}

// If the data directory of a daemon in a container is not here, no check examines another one, or
// advises creating it.
func TestDoctorOfADataDirectoryElsewhere(t *testing.T) {
	elsewhere := filepath.ToSlash(filepath.Join(t.TempDir(), "data"))
	e := withDaemon(t, "<dir>", elsewhere)
	e.look = Look
	all := examine(t, e)
	wantFinding(t, all, "data directory", NotApplicable, "", elsewhere+", which is not on this machine")
	wantFinding(t, all, "disk", NotApplicable, "")
}
