package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

const (
	// probeTimeout bounds each request of the probe; a shorter upstream.timeout counts.
	probeTimeout = 8 * time.Second
	// mostProbes is how many requests the probe makes, within probesWithin: reads, which cost
	// no quota.
	mostProbes   = 5
	probesWithin = 5 * time.Second
	// slowTrip is a round trip that is slow for a memory service.
	slowTrip = time.Second
	// farClock is how far the clocks may be apart. The fence estimates the difference; expiry
	// dates and people do not.
	farClock = 5 * time.Second
	// dateTick is how far upstream's clock may be ahead of the Date of its answer: the second
	// that the header leaves out, and another one, as some servers make it once a second.
	dateTick = 2250 * time.Millisecond
	// soonExpired is the time before a certificate's end at which its owner should have
	// renewed it.
	soonExpired = 7 * 24 * time.Hour
)

// probeID is an entry that nobody writes.
var probeID = journal.ID{Namespace: "botwired-doctor", Key: "probe"}

// answered is one answer of upstream's: its Date, and when its request left and it arrived.
type answered struct{ date, sent, received time.Time }

// probe is what the daemon's own client has seen on the way to upstream.
type probe struct {
	mu      sync.Mutex // guards the fields below: the client calls back on goroutines of its own
	looked  bool       // a name was looked up
	dns     error
	began   time.Time
	dialed  string        // the address that answered, or the last one
	connect error         // nil if one answered
	took    time.Duration // to connect
	shaken  bool          // hands, for TLS
	tls     error
	certs   []*x509.Certificate
	answers []answered

	keyless bool  // the daemon's headers for this upstream are not this shell's
	reached error // of the first request; nil is an answer in BotWire's words
}

// trace has the probe see how a request connects.
func (p *probe) trace() *httptrace.ClientTrace {
	locked := func(f func()) { p.mu.Lock(); f(); p.mu.Unlock() }
	return &httptrace.ClientTrace{
		DNSDone:      func(i httptrace.DNSDoneInfo) { locked(func() { p.looked, p.dns = true, i.Err }) },
		ConnectStart: func(_, _ string) { locked(func() { p.began = time.Now() }) },
		ConnectDone: func(_, address string, err error) {
			locked(func() {
				if p.dialed == "" || p.connect != nil { // and no other address has answered
					p.dialed, p.connect, p.took = address, err, time.Since(p.began)
				}
			})
		},
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			locked(func() { p.shaken, p.tls, p.certs = true, err, s.PeerCertificates })
		},
	}
}

// run asks upstream for an entry that is not there, over one connection.
func (p *probe) run(ctx context.Context, c *config.Config, u *url.URL) {
	opts := engineOptions(c)
	opts.URL, opts.Timeout = u, min(opts.Timeout, probeTimeout)
	opts.OnAnswer = func(date, sent, received time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers = append(p.answers, answered{date, sent, received})
	}
	client := botwire.NewClient(opts)
	defer client.Close()
	end := time.Now().Add(probesWithin)
	_, p.reached = client.Get(httptrace.WithClientTrace(ctx, p.trace()), probeID)
	for i := 1; i < mostProbes && p.reached == nil && time.Now().Before(end); i++ {
		if _, err := client.Get(ctx, probeID); err != nil {
			return
		}
	}
}

// upstream checks the way to upstream step by step, as the daemon's requests go it.
func (e *examination) upstream(ctx context.Context) []doctor.Finding {
	c, _ := e.examined(ctx)
	if c.Upstream.URL == config.Embedded {
		return []doctor.Finding{doctor.None("upstream", "it runs inside the daemon")}
	}
	if servers := c.Upstream.Servers(); servers != nil {
		return e.cluster(ctx, c, servers)
	}
	u, err := url.Parse(c.Upstream.URL)
	if err != nil {
		return []doctor.Finding{doctor.Fail("upstream", "export BOTWIRED_UPSTREAM_URL=https://botwire.dev", "%s", err)}
	}
	p := &probe{keyless: c.Upstream.Identity() != e.loaded.Config.Upstream.Identity()}
	p.run(ctx, c, u)
	p.mu.Lock()
	defer p.mu.Unlock()
	return []doctor.Finding{
		p.dnsFinding(u, proxyOf(u)), p.connectFinding(u), p.tlsFinding(u, e.now()), p.apiFinding(u), p.tripFinding(u), p.clockFinding(),
	}
}

// proxyOf returns the proxy through which the daemon's requests go from this shell; nil if there
// is none.
func proxyOf(u *url.URL) *url.URL {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil {
		return nil
	}
	return proxy
}

func (p *probe) dnsFinding(u, proxy *url.URL) doctor.Finding {
	const name = "DNS"
	host, whose := u.Hostname(), ""
	if proxy != nil {
		host, whose = proxy.Hostname(), "the proxy "
	}
	switch {
	case net.ParseIP(host) != nil:
		return doctor.None(name, "%s%s is an address", whose, host)
	case p.dns != nil:
		return doctor.Fail(name, "nslookup "+shellWord(host), "%s%s has no address: %s", whose, host, plainReason(p.dns))
	case !p.looked:
		return doctor.Warn(name, "nslookup "+shellWord(host), "%s%s: no answer", whose, host)
	}
	return doctor.Good(name, "%s%s has an address", whose, host)
}

func (p *probe) connectFinding(u *url.URL) doctor.Finding {
	const name = "connection"
	switch {
	case p.dns != nil || p.dialed == "" && p.reached == nil:
		return doctor.None(name, "there is no address to connect to")
	case p.dialed == "" || p.connect != nil:
		return doctor.Fail(name, "curl -v "+shellWord(u.String()), "%s", p.reason())
	}
	return doctor.Good(name, "%s, within %s", p.dialed, shortly(p.took))
}

// tlsFinding judges the certificate. A clock that is wrong makes a good one look expired.
func (p *probe) tlsFinding(u *url.URL, now time.Time) doctor.Finding {
	const name = "TLS"
	look := "curl -v " + shellWord(u.String())
	var invalid x509.CertificateInvalidError
	var other x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case u.Scheme != "https":
		return doctor.None(name, "upstream.url is http://, on this machine")
	case !p.shaken:
		return doctor.None(name, "there is no connection")
	case errors.As(p.tls, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return doctor.Fail(name, setClock(), "the certificate is valid from %s to %s, and this machine's clock says %s: if the clock is wrong, set it with",
			day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter), day(now))
	case errors.As(p.tls, &other):
		names := slices.Clone(other.Certificate.DNSNames)
		return doctor.Fail(name, look, "the certificate is not for %s but for %s: another server answers, or upstream.url is wrong", u.Hostname(), joinOr(names, "no name"))
	case errors.As(p.tls, &unknown):
		return doctor.Fail(name, "export SSL_CERT_FILE=/path/of/authority.pem", "the certificate is signed by an unknown authority; if a company's proxy has made it, give the daemon its authority with")
	case p.tls != nil:
		return doctor.Fail(name, look, "%s", p.reason())
	}
	if len(p.certs) > 0 && p.certs[0].NotAfter.Sub(now) < soonExpired {
		return doctor.Warn(name, look, "the certificate ends on %s: whoever runs upstream has to renew it", day(p.certs[0].NotAfter))
	}
	return doctor.Good(name, "the certificate is for %s", u.Hostname())
}

func joinOr(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return strings.Join(names, ", ")
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// probed is the address of what the probe asks for.
func probed(u *url.URL) string { return u.JoinPath("memory", probeID.Namespace, probeID.Key).String() }

// apiFinding judges upstream's answer: its own, or somebody's in its place.
func (p *probe) apiFinding(u *url.URL) doctor.Finding {
	const name = "API"
	look := "curl -i " + shellWord(probed(u))
	var failed *upstream.Error
	if p.reached == nil {
		return doctor.Good(name, "%s answers as BotWire does, and lets this machine in", u.Host)
	}
	if !errors.As(p.reached, &failed) || len(p.answers) == 0 {
		if p.dialed == "" || p.connect != nil || p.tls != nil {
			return doctor.None(name, "there is no connection")
		}
		return doctor.Fail(name, look, "%s", p.reason())
	}
	switch failed.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired:
		if p.keyless {
			return doctor.None(name, "upstream does not let this command in (%s), which has none of the daemon's upstream.headers", failed.Reason)
		}
		return doctor.Fail(name, `export BOTWIRED_UPSTREAM_HEADERS='{"Authorization": {"file": "/path/of/secret"}}'`,
			"upstream refuses access (%s): if it wants a key, name the file that holds the header's value with", failed.Reason)
	case http.StatusTooManyRequests:
		return doctor.Warn(name, look, "upstream has throttled this machine (%s)", failed.Reason)
	}
	if failed.Status >= 500 {
		return doctor.Fail(name, look, "upstream is unwell (%s)", failed.Reason)
	}
	if failed.Unreachable {
		return doctor.Fail(name, "export BOTWIRED_UPSTREAM_URL=https://botwire.dev", "%s", failed.Reason)
	}
	return doctor.Fail(name, look, "something else answers in BotWire's place, such as a network's login page, or upstream.url is wrong (%s); see its answer with", failed.Reason)
}

// tripFinding shows the median of the round trips.
func (p *probe) tripFinding(u *url.URL) doctor.Finding {
	var trips []time.Duration
	for _, a := range p.answers {
		trips = append(trips, a.received.Sub(a.sent))
	}
	return tripsFinding(trips, `curl -so /dev/null -w '%{time_total}\n' `+shellWord(probed(u)))
}

// tripsFinding shows the median of some round trips, and the command that measures more.
func tripsFinding(trips []time.Duration, measures string) doctor.Finding {
	const name = "round trip"
	if len(trips) == 0 {
		return doctor.None(name, "there is no answer")
	}
	slices.Sort(trips)
	median := doctor.Quantile(trips, 0.5)
	text := "median " + shortly(median) + " of " + plural(len(trips), "request")
	if median > slowTrip {
		return doctor.Warn(name, measures, "%s: what the daemon does not know takes that long; measure more with", text)
	}
	return doctor.Good(name, "%s", text)
}

// clockFinding bounds how far this machine's clock is from upstream's: each Date lies between
// the moments at which its request left and its answer arrived.
func (p *probe) clockFinding() doctor.Finding {
	const name = "clock"
	ahead, behind, known := time.Duration(0), time.Duration(0), false
	for _, a := range p.answers {
		if a.date.IsZero() {
			continue
		}
		known = true
		ahead = max(ahead, a.sent.Sub(a.date)-dateTick)
		behind = max(behind, a.date.Sub(a.received))
	}
	switch {
	case !known:
		return doctor.None(name, "no answer of upstream's says what time it is")
	case ahead > farClock:
		return doctor.Warn(name, setClock(), "this machine's clock is %s ahead of upstream's", shortly(ahead))
	case behind > farClock:
		return doctor.Warn(name, setClock(), "this machine's clock is %s behind upstream's", shortly(behind))
	}
	return doctor.Good(name, "within %s of upstream's", shortly(cmp.Or(max(ahead, behind), time.Second)+dateTick))
}

// setClock is the command that sets this machine's clock by the network.
func setClock() string {
	switch runtime.GOOS {
	case "windows":
		return "w32tm /resync"
	case "darwin":
		return "sudo sntp -sS time.apple.com"
	}
	return "sudo timedatectl set-ntp true"
}

// reason says in the client's words why the first request got no answer.
func (p *probe) reason() string {
	if p.reached == nil {
		return "there was no answer"
	}
	return p.reached.Error()
}

// plainReason is an error of a lookup without the server that was asked.
func plainReason(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	return err.Error()
}
