package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/fence"
	"github.com/botwired/botwired/upstream/natskv"
)

// openUpstream returns the engine for the memory upstream, and the handler that forwards requests
// outside the memory API.
func (d *sidecar) openUpstream(ctx context.Context, c *config.Config) (engine upstream.Engine, forward http.Handler, err error) {
	d.offset = fence.NewOffset()
	opts := engines.BotWire(c)
	//exhaustive:enforce
	switch c.Upstream.Kind() {
	case config.KindNATS:
		if err := d.openCluster(ctx, c); err != nil {
			return nil, nil, fmt.Errorf("upstream.url = %q: %w", c.Upstream.URL, words.Unusable(err))
		}
		d.setHeaders = func(http.Header) {} // NATS has none
		return d.cluster, http.HandlerFunc(nothingElse), nil
	case config.KindEmbedded:
		opts.URL = &url.URL{Scheme: "http", Host: "localhost"}
		opts.Dial, err = d.openEmbedded(ctx, c)
	case config.KindBotWire:
		opts.URL, err = url.Parse(c.Upstream.URL)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("upstream.url = %q: %w", c.Upstream.URL, err)
	}
	opts.Chain = d.chain
	opts.OnAnswer = d.offset.Answered
	client := botwire.NewClient(opts)
	d.onClose(func() error { client.Close(); return nil })
	d.setHeaders = client.SetHeaders
	return client, botwire.NewForwarder(client, d.hasToken.Load, d.logger), nil
}

// nothingElse answers 404 to requests outside the memory API: a bucket has no other resources.
func nothingElse(w http.ResponseWriter, _ *http.Request) {
	wire.Detail(http.StatusNotFound, "Not Found").Write(w)
}

// openCluster opens the bucket that holds the memory. Its servers need not be reachable.
func (d *sidecar) openCluster(ctx context.Context, c *config.Config) (err error) {
	if d.host, err = clusterHost(c.DataDir); err != nil {
		return err
	}
	opts, err := d.clusterOptions(c)
	if err != nil {
		return err
	}
	if d.cluster, err = natskv.Open(ctx, opts); err != nil {
		return err
	}
	d.onClose(func() error { d.cluster.Close(); return nil })
	return nil
}

// clusterTimeout limits one attempt, even if upstream.timeout is longer. A leader that dies during a
// request leaves it unanswered, and the servers soon elect another. The daemon retries by itself.
const clusterTimeout = 5 * time.Second

// clusterOptions returns the options of the daemon's engine.
func (d *sidecar) clusterOptions(c *config.Config) (natskv.Options, error) {
	opts, err := engines.Cluster(c, d.host, d.logger)
	opts.Timeout = min(opts.Timeout, clusterTimeout)
	opts.Marks = fileMarks{filepath.Join(c.DataDir, markFile)}
	opts.OnChange = d.versionSeen
	return opts, err
}

// notBefore is the journal's Options.NotBefore. The cluster, if any, is opened after the journal but
// before its first write.
func (d *sidecar) notBefore(id journal.ID) float64 {
	if d.cluster == nil {
		return 0
	}
	return d.cluster.NotBefore(id)
}

// versionSeen passes the cluster's new versions on to the proxy. It drops them until the proxy exists:
// nobody has asked for anything yet.
func (d *sidecar) versionSeen(id journal.ID, now upstream.Version) {
	if tell := d.onVersion.Load(); tell != nil {
		(*tell)(id, now.Writer.Host == d.host)
	}
}

// describeCluster sets the proxy options that only a cluster has.
func (d *sidecar) describeCluster(opts *proxy.Options) {
	opts.View = d.cluster
	opts.Loss, opts.Revisions = bucketLoss{d.cluster}, revisions{d.cluster.Revisions, d.host}
	opts.WatchState = func() api.WatchState {
		r := d.cluster.Report()
		return api.WatchState{
			CaughtUp: r.CaughtUp, Since: r.Since, Reason: r.Why, Entries: r.Entries, Bytes: r.Memory,
			Bucket: r.Bucket, Server: r.Server, Lost: r.Lost,
		}
	}
}

// bucketLoss implements [surface.Loss] for a cluster.
type bucketLoss struct{ *natskv.Engine }

// Lost implements [surface.Loss].
func (b bucketLoss) Lost() string { return b.Report().Lost }

// openEmbedded runs the memory service in this process.
func (d *sidecar) openEmbedded(ctx context.Context, c *config.Config) (func(context.Context) (net.Conn, error), error) {
	service, err := selfhost.Open(ctx, selfhost.Options{
		Path: filepath.Join(c.DataDir, databaseFile), Latency: c.Embedded.Latency, Version: build.Version(), Logger: d.logger,
	})
	if err != nil {
		return nil, err
	}
	d.onClose(service.Close)
	dial, end := service.ServeInProcess()
	d.onClose(end)
	return dial, nil
}
