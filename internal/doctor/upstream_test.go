package doctor

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// absent answers as BotWire does for a missing entry.
func absent(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, `{"detail":"Key not found: %s/%s"}`, parts[2], parts[3])
}

// upstreamFindings examines an upstream, and checks that it only gets reads.
func upstreamFindings(t *testing.T, answer http.HandlerFunc) []Finding {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("doctor has sent a %s", r.Method)
		}
		answer(w, r)
	}))
	defer server.Close()
	return newPatient(t, map[string]string{"upstream.url": server.URL}).upstream(t.Context())
}

func TestDoctorOfAHealthyUpstream(t *testing.T) {
	all := upstreamFindings(t, absent)
	for _, f := range all {
		if f.Result != OK && f.Result != NotApplicable || f.Remedy != "" {
			t.Errorf("%+v", f)
		}
	}
	wantFinding(t, all, "upstream", OK, "", "127.0.0.1:", "lets this machine in", "a request takes ")
	wantFinding(t, all, "clock", OK, "", "within ")
}

// An answer that is not BotWire's, and a refusal, are not reported as a healthy upstream.
func TestDoctorOfUpstreamsAnswers(t *testing.T) {
	const key = `export BOTWIRED_UPSTREAM_HEADERS='{"Authorization": {"file": "/path/of/secret"}}'`
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	dated := func(by time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
			absent(w, r)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		check  string
		result Result
		remedy string
		part   string
	}{
		"captive portal": {answer(200, "<html>log in"), "upstream", Failed, "curl -i ", "login page"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://portal.example/", http.StatusFound)
		}, "upstream", Failed, "curl -i ", "in BotWire's place"},
		"wrong service": {answer(404, `{"error":"no route"}`), "upstream", Failed, "curl -i ", "upstream.url is wrong"},
		"unauthorized":  {answer(401, `{"detail":"a key is needed"}`), "upstream", Failed, key, "refuses access (HTTP 401: a key is needed)"},
		"throttled":     {answer(429, `{"detail":"too many"}`), "upstream", Warning, "curl -i ", "throttled"},
		"unwell":        {answer(503, ``), "upstream", Failed, "curl -i ", "unwell"},
		"clock behind":  {dated(time.Hour), "clock", Warning, setClock(), "behind upstream's"},
		"clock ahead":   {dated(-time.Hour), "clock", Warning, setClock(), "ahead of upstream's"},
	} {
		t.Run(name, func(t *testing.T) {
			all := upstreamFindings(t, c.answer)
			f := finding(t, all, c.check)
			if strings.HasSuffix(c.remedy, " ") && strings.HasPrefix(f.Remedy, c.remedy+"http://127.0.0.1:") {
				c.remedy = f.Remedy
			}
			wantFinding(t, all, c.check, c.result, c.remedy, c.part)
		})
	}
}

func TestDoctorOfNoUpstream(t *testing.T) {
	address := closedAddress(t)
	all := newPatient(t, map[string]string{"upstream.url": "http://" + address}).upstream(t.Context())
	wantFinding(t, all, "upstream", Failed, "curl -i http://"+address+"/memory/botwired-doctor/probe", "nobody listens at "+address)
	wantFinding(t, all, "clock", NotApplicable, "")
}

// An untrusted certificate is not reported as an upstream that is down.
func TestDoctorOfTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(absent))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	all := newPatient(t, map[string]string{"upstream.url": server.URL}).upstream(t.Context())
	wantFinding(t, all, "upstream", Failed, "curl -i "+server.URL+"/memory/botwired-doctor/probe", "signed by an unknown authority")
}
