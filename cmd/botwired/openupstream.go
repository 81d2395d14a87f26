package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/natskv"
)

// openUpstream returns the engine that keeps the memory upstream, and what passes on the
// requests that are not for the memory API.
func (d *sidecar) openUpstream(ctx context.Context, c *config.Config) (engine upstream.Engine, forward http.Handler, err error) {
	d.offset = upstream.NewOffset()
	if servers := c.Upstream.Servers(); servers != nil {
		if err := d.openCluster(ctx, c, servers); err != nil {
			return nil, nil, fmt.Errorf("upstream.url = %q: %w", c.Upstream.URL, words.Unusable(err))
		}
		d.setHeaders = func(http.Header) {} // NATS has none
		return d.cluster, http.HandlerFunc(nothingElse), nil
	}
	opts := engineOptions(c)
	opts.Chain = d.chain
	opts.OnAnswer = d.offset.Answered
	if c.Upstream.URL == config.Embedded {
		opts.URL = &url.URL{Scheme: "http", Host: "localhost"}
		opts.Dial, err = d.openEmbedded(ctx, c)
	} else {
		opts.URL, err = url.Parse(c.Upstream.URL)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("upstream.url = %q: %w", c.Upstream.URL, err)
	}
	client := botwire.NewClient(opts)
	d.onClose(func() error { client.Close(); return nil })
	d.setHeaders = client.SetHeaders
	return client, botwire.NewForwarder(client, d.hasToken.Load, d.logger), nil
}

// engineOptions returns the options of the engine, without its address.
func engineOptions(c *config.Config) botwire.Options {
	return botwire.Options{
		Timeout: c.Upstream.Timeout, Concurrency: c.Upstream.Concurrency,
		Headers: upstreamHeaders(c), UserAgent: "botwired/" + buildVersion(),
	}
}

func upstreamHeaders(c *config.Config) http.Header {
	headers := make(http.Header)
	for name, value := range c.Upstream.Headers {
		headers.Set(name, value)
	}
	return headers
}

// nothingElse answers what is no request of the memory API: a bucket has nothing but the memory.
func nothingElse(w http.ResponseWriter, _ *http.Request) {
	wire.Detail(http.StatusNotFound, "Not Found").Write(w)
}

// openCluster opens the bucket that keeps the memory. Its servers need not be there.
func (d *sidecar) openCluster(ctx context.Context, c *config.Config, servers []string) (err error) {
	if d.host, err = clusterHost(c.DataDir); err != nil {
		return err
	}
	opts, err := d.clusterOptions(c, servers)
	if err != nil {
		return err
	}
	if d.cluster, err = natskv.Open(ctx, opts); err != nil {
		return err
	}
	d.onClose(func() error { d.cluster.Close(); return nil })
	return nil
}

// clusterTimeout bounds an attempt of the daemon's, whatever upstream.timeout allows beyond it: a
// leader that dies with a request leaves it without an answer, and the servers soon have another one.
// The daemon makes the next attempt by itself. A service without a daemon needs all the time for one.
const clusterTimeout = 5 * time.Second

// clusterOptions are the options of the daemon's engine.
func (d *sidecar) clusterOptions(c *config.Config, servers []string) (natskv.Options, error) {
	opts, err := clusterOptions(c, servers, d.host, d.logger)
	opts.Timeout = min(opts.Timeout, clusterTimeout)
	opts.Marks = fileMarks{filepath.Join(c.DataDir, markFile)}
	opts.OnChange = d.versionSeen
	return opts, err
}

const (
	// bucketHistory is how many versions of an entry a bucket keeps that botwired makes: enough to take
	// back what an agent has spoilt some writes ago. Each of them takes its room on every server.
	bucketHistory = 8
	// tombstonesFor is how long a delete is remembered upstream, so that an older write of a host that was
	// away does not undo it. BotWire itself drops a namespace that nobody has used for as long.
	tombstonesFor = 90 * 24 * time.Hour
)

// clusterOptions are the options of an engine for NATS without what only a daemon has.
func clusterOptions(c *config.Config, servers []string, host string, logger *slog.Logger) (natskv.Options, error) {
	n := &c.Upstream.NATS
	a, err := n.Access()
	if err != nil {
		return natskv.Options{}, err
	}
	secured, err := clusterTLS(&a, servers)
	if err == nil && a.Creds != "" {
		err = checkCredentials(a.Creds)
	}
	if err != nil {
		return natskv.Options{}, errors.New("upstream.nats.context = " + strconv.Quote(n.Context) + ": " + err.Error()) // which says all that there is to say
	}
	return natskv.Options{
		Servers: servers, Bucket: n.Bucket, Replicas: n.Replicas, History: bucketHistory, Create: n.Create,
		TLS: secured, TLSFirst: a.TLSFirst,
		Access: natskv.Access{
			User: a.User, Password: a.Password, Credentials: a.Creds, NKey: a.NKey, Token: a.Token, InboxPrefix: a.InboxPrefix,
		},
		Timeout: c.Upstream.Timeout, Host: host, Name: "botwired/" + buildVersion() + " " + host,
		TombstonesFor: tombstonesFor, Logger: logger,
	}, nil
}

// userSeed is what the key of a user begins with in a credentials file.
const userSeed = "SU"

// checkCredentials finds a file that no server would ever let in. The client reads the file itself,
// anew for each connection.
func checkCredentials(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("creds: %w", words.Unusable(err))
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte(userSeed)) {
			return nil
		}
	}
	return fmt.Errorf("creds = %q: expected NATS credentials, a user's JWT and its key, and there is no key in it", name)
}

// clusterTLS is nil if the servers may be spoken to in the clear: they are on this machine, and
// nobody has asked for more.
func clusterTLS(a *config.Access, servers []string) (*tls.Config, error) {
	if !config.DemandsTLS(servers) && a.CA == "" && a.Cert == "" && !a.TLSFirst {
		return nil, nil
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		authorities, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", words.Unusable(err))
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("ca = %q: expected certificates in PEM, and there is none in it", a.CA)
		}
	}
	if a.Cert != "" {
		own, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("cert = %q and key = %q: expected a certificate and its key in PEM: %w", a.Cert, a.Key, words.Unusable(err))
		}
		secured.Certificates = []tls.Certificate{own}
	}
	return secured, nil
}

// notBefore is the journal's Options.NotBefore. The cluster, if there is one, is opened after the journal
// and before its first write.
func (d *sidecar) notBefore(id journal.ID) float64 {
	if d.cluster == nil {
		return 0
	}
	return d.cluster.NotBefore(id)
}

// versionSeen passes on what the cluster tells. Before the proxy is there, nobody has asked for
// anything yet.
func (d *sidecar) versionSeen(id journal.ID, now upstream.Version) {
	if tell := d.onVersion.Load(); tell != nil {
		(*tell)(id, now.Writer.Host == d.host)
	}
}

// describeCluster gives the proxy what a cluster has beyond another upstream.
func (d *sidecar) describeCluster(opts *proxy.Options) {
	opts.View, opts.Exact = d.cluster, true
	opts.Loss, opts.Revisions = bucketLoss{d.cluster}, revisions{d.cluster.Revisions, d.host}
	opts.WatchState = func() proxy.WatchState {
		r := d.cluster.Report()
		return proxy.WatchState{
			Sound: r.Sound, Since: r.Since, Reason: r.Why, Entries: r.Entries, Bytes: r.Memory,
			Bucket: r.Bucket, Server: r.Server, Lost: r.Lost,
		}
	}
}

// bucketLoss is [proxy.Loss] over a cluster.
type bucketLoss struct{ *natskv.Engine }

// Lost implements [proxy.Loss].
func (b bucketLoss) Lost() string { return b.Report().Lost }

// openEmbedded runs the memory service in this process.
func (d *sidecar) openEmbedded(ctx context.Context, c *config.Config) (func(context.Context) (net.Conn, error), error) {
	service, err := selfhost.Open(ctx, selfhost.Options{
		Path: filepath.Join(c.DataDir, databaseFile), Latency: c.Embedded.Latency, Version: buildVersion(), Logger: d.logger,
	})
	if err != nil {
		return nil, err
	}
	d.onClose(service.Close)
	in := selfhost.ServeInProcess(service)
	d.onClose(in.Close)
	return in.Dial, nil
}
