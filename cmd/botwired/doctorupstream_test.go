package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/doctor"
)

// absent is BotWire's answer about an entry that it does not hold.
func absent(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, `{"detail":"Key not found: %s/%s"}`, parts[2], parts[3])
}

// upstreamFindings examines an upstream, and sees that nothing was asked but reads.
func upstreamFindings(t *testing.T, answer http.HandlerFunc) []doctor.Finding {
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
		if f.Result != doctor.OK && f.Result != doctor.NotApplicable || f.Remedy != "" {
			t.Errorf("%+v", f)
		}
	}
	wantFinding(t, all, "DNS", doctor.NotApplicable, "", "127.0.0.1 is an address")
	wantFinding(t, all, "connection", doctor.OK, "", "127.0.0.1:")
	wantFinding(t, all, "API", doctor.OK, "", "lets this machine in")
	wantFinding(t, all, "round trip", doctor.OK, "", "median ", " of 5 requests")
	wantFinding(t, all, "clock", doctor.OK, "", "within ")
}

// An answer that is not BotWire's, or a refusal, is told from an upstream that is well.
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
		result doctor.Result
		remedy string
		part   string
	}{
		"captive portal": {answer(200, "<html>log in"), "API", doctor.Failed, "curl -i ", "login page"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://portal.example/", http.StatusFound)
		}, "API", doctor.Failed, "curl -i ", "in BotWire's place"},
		"wrong service": {answer(404, `{"error":"no route"}`), "API", doctor.Failed, "curl -i ", "upstream.url is wrong"},
		"unauthorized":  {answer(401, `{"detail":"a key is needed"}`), "API", doctor.Failed, key, "refuses access (HTTP 401: a key is needed)"},
		"throttled":     {answer(429, `{"detail":"too many"}`), "API", doctor.Warning, "curl -i ", "throttled"},
		"unwell":        {answer(503, ``), "API", doctor.Failed, "curl -i ", "unwell"},
		"clock behind":  {dated(time.Hour), "clock", doctor.Warning, setClock(), "behind upstream's"},
		"clock ahead":   {dated(-time.Hour), "clock", doctor.Warning, setClock(), "ahead of upstream's"},
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

// An upstream that nobody can reach: each step says whether it is the one.
func TestDoctorOfNoUpstream(t *testing.T) {
	address := closedAddress(t)
	all := newPatient(t, map[string]string{"upstream.url": "http://" + address}).upstream(t.Context())
	wantFinding(t, all, "connection", doctor.Failed, "curl -v http://"+address, "nobody listens at "+address)
	wantFinding(t, all, "API", doctor.NotApplicable, "")
	wantFinding(t, all, "round trip", doctor.NotApplicable, "")

	u := &url.URL{Scheme: "https", Host: "botwire.invalid"}
	p := &probe{looked: true, dns: &net.DNSError{Err: "no such host", Name: u.Host, IsNotFound: true}, reached: io.EOF}
	wantFinding(t, []doctor.Finding{p.dnsFinding(u, nil)}, "DNS", doctor.Failed, "nslookup botwire.invalid", "no such host")
	wantFinding(t, []doctor.Finding{p.connectFinding(u)}, "connection", doctor.NotApplicable, "")
	proxy := &url.URL{Scheme: "http", Host: "proxy.invalid:1", User: url.UserPassword("u", "s3cret")}
	wantFinding(t, []doctor.Finding{p.dnsFinding(u, proxy)}, "DNS", doctor.Failed, "nslookup proxy.invalid", "the proxy proxy.invalid")
}

// certificate returns a server's certificate that it has signed itself.
func certificate(t *testing.T, name string, from, to time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	no(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, DNSNames: []string{name}}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	no(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestDoctorOfTLS(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		certificate tls.Certificate
		remedy      string
		parts       []string
	}{
		"expired":    {certificate(t, "127.0.0.1", now.AddDate(0, -2, 0), now.AddDate(0, 0, -2)), setClock(), []string{day(now.AddDate(0, 0, -2)), "clock says " + day(now)}},
		"not yet":    {certificate(t, "127.0.0.1", now.AddDate(0, 0, 2), now.AddDate(0, 2, 0)), setClock(), []string{"if the clock is wrong"}},
		"wrong name": {certificate(t, "portal.example", now.AddDate(0, 0, -2), now.AddDate(0, 2, 0)), "curl -v ", []string{"not for 127.0.0.1 but for portal.example"}},
		"unknown":    {certificate(t, "127.0.0.1", now.AddDate(0, 0, -2), now.AddDate(0, 2, 0)), "export SSL_CERT_FILE=/path/of/authority.pem", []string{"unknown authority"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(absent))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{c.certificate}}
			server.StartTLS()
			defer server.Close()
			if strings.HasSuffix(c.remedy, " ") {
				c.remedy += server.URL
			}
			all := newPatient(t, map[string]string{"upstream.url": server.URL}).upstream(t.Context())
			wantFinding(t, all, "connection", doctor.OK, "")
			wantFinding(t, all, "TLS", doctor.Failed, c.remedy, c.parts...)
			wantFinding(t, all, "API", doctor.NotApplicable, "")
		})
	}
	// A certificate that is good and ends soon.
	u := &url.URL{Scheme: "https", Host: "botwire.dev"}
	p := &probe{shaken: true, certs: []*x509.Certificate{{NotAfter: now.Add(48 * time.Hour)}}}
	wantFinding(t, []doctor.Finding{p.tlsFinding(u, now)}, "TLS", doctor.Warning, "curl -v https://botwire.dev", "ends on")
	p.certs[0].NotAfter = now.AddDate(0, 1, 0)
	wantFinding(t, []doctor.Finding{p.tlsFinding(u, now)}, "TLS", doctor.OK, "")
}

func TestDoctorOfSlowRoundTrips(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "botwire.dev"}
	sent := time.Unix(1e9, 0)
	p := &probe{answers: []answered{{sent: sent, received: sent.Add(2 * time.Second)}}}
	wantFinding(t, []doctor.Finding{p.tripFinding(u)}, "round trip", doctor.Warning, `curl -so /dev/null -w '%{time_total}\n' https://botwire.dev/memory/botwired-doctor/probe`, "median 2s of 1 request")
}
