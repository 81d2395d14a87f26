// Package engines opens the engine of a configuration: it alone knows all engines.
package engines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/sealed"
)

// Options is what an engine needs of a daemon beside its configuration.
type Options struct {
	Logger *slog.Logger
	// Chain is that of [botwire.Options].
	Chain *via.Chain
	// HasToken reports whether callers send this daemon's token, which upstream must not see.
	HasToken func() bool
	// Journal is that of the data directory. Nobody else uses it yet.
	Journal *journal.Journal

	host host // if versions name their writers
}

// Opened is an open engine.
type Opened struct {
	upstream.Backend
	// Sealed is what seals namespaces; nil if none is sealed.
	Sealed *sealed.Engine
	// Forward answers requests outside the memory API.
	Forward http.Handler
	// Configure applies the settings that a running daemon can change.
	Configure func(*config.Config)
	// Seen returns what the engine has seen of upstream, for the journal to keep with each state that upstream has
	// confirmed. It is nil if the engine needs nothing of that kind.
	Seen func() []byte
	// Close comes after the last request.
	Close func() error
}

// Open opens the engine of a configuration. Upstream need not be reachable. The data directory's journal
// must be open, and belong to this upstream.
func Open(ctx context.Context, c *config.Config, o Options) (opened Opened, err error) {
	if c.Upstream.Kind() == config.KindNATS || c.Seal.KeyFile != "" {
		if o.host, err = newHost(c.DataDir, o.Journal.Stats().LastSeq); err != nil {
			return Opened{}, err
		}
	}
	//exhaustive:enforce
	switch c.Upstream.Kind() {
	case config.KindNATS:
		opened, err = openNATS(ctx, c, o)
	case config.KindEmbedded:
		opened, err = openEmbedded(ctx, c, o)
	case config.KindBotWire:
		opts := BotWire(c)
		if opts.URL, err = url.Parse(c.Upstream.URL); err == nil {
			opened = openBotWire(opts, o)
		}
	}
	if err != nil {
		return Opened{}, fmt.Errorf("upstream.url = %q: %w", c.Upstream.URL, words.Unusable(err))
	}
	if err := opened.seal(c, o); err != nil {
		return Opened{}, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// Keys loads the key file of a configuration. It returns nil if the configuration names none.
func Keys(c *config.Config) (*seal.Keys, error) {
	if c.Seal.KeyFile == "" {
		return nil, nil //nolint:nilnil // nothing is sealed
	}
	keys, err := seal.Load(c.Seal.KeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, words.Plain("seal.key_file: there is no "+c.Seal.KeyFile+", and without its keys nobody can read the sealed namespaces. "+
			"Bring it back from its backup, or copy it from another host. If it is lost, docs/sealed.md says under \"Lose the key\" how to save the copies here. "+
			"If nothing is sealed yet, make it: botwired seal keygen "+c.Seal.KeyFile, err)
	case err != nil:
		return nil, fmt.Errorf("seal.key_file: %w", err)
	}
	return keys, nil
}

// seal puts a seal in front of the engine, if there are keys.
func (opened *Opened) seal(c *config.Config, o Options) error {
	keys, err := Keys(c)
	if err == nil {
		err = keepSealing(c, keys, o.Journal)
	}
	if err != nil || keys == nil {
		return err
	}
	opened.Sealed = sealed.New(opened.Backend, o.host.name, sealed.Options{
		Earlier: o.host.earlier, Keys: keys, Sealed: func(namespace string) bool { return c.For(namespace).Sealed }, Logger: o.Logger,
	})
	opened.Backend = opened.Sealed.Backend()
	if opened.View == nil {
		return nil
	}
	// The view calls sealed namespaces by their names that the configuration or the journal knows.
	for _, each := range c.Namespaces {
		opened.Sealed.Use(each.Match)
	}
	use := func(namespace string) bool { opened.Sealed.Use(namespace); return false }
	if _, err := o.Journal.Keys.Namespaces("", 1, use); err != nil {
		o.Logger.Warn("not all namespaces can be read: a sealed one may be followed only once it is used", "error", err)
	}
	return nil
}

func openBotWire(opts botwire.Options, o Options) Opened {
	opts.Chain, opts.Logger = o.Chain, o.Logger
	client := botwire.NewClient(opts)
	return Opened{
		Backend:   upstream.Backend{Engine: client, Host: "", View: nil, Revisions: nil, Purge: nil},
		Forward:   botwire.NewForwarder(client, o.HasToken, o.Logger),
		Configure: func(c *config.Config) { client.SetHeaders(headers(c)) },
		Close:     func() error { client.Close(); return nil },
	}
}

// openEmbedded runs the memory service in this process.
func openEmbedded(ctx context.Context, c *config.Config, o Options) (Opened, error) {
	service, err := selfhost.Open(ctx, selfhost.Options{
		Path: filepath.Join(c.DataDir, DatabaseFile), Latency: c.Embedded.Latency, Version: build.Version(), Logger: o.Logger,
	})
	if err != nil {
		return Opened{}, err
	}
	dial, end := service.ServeInProcess()
	opts := BotWire(c)
	opts.URL, opts.Dial = &url.URL{Scheme: "http", Host: "localhost"}, dial
	opened := openBotWire(opts, o)
	opened.Purge = func(ctx context.Context, _ journal.ID) error { return service.Scrub(ctx) }
	closeClient := opened.Close
	opened.Close = func() error { return errors.Join(closeClient(), end(), service.Close()) }
	return opened, nil
}

// BotWire returns the options of BotWire's engine, without its URL.
func BotWire(c *config.Config) botwire.Options {
	return botwire.Options{
		Timeout: c.Upstream.Timeout, Concurrency: c.Upstream.Concurrency,
		Headers: headers(c), UserAgent: "botwired/" + build.Version(),
	}
}

// headers returns the headers of each request to BotWire.
func headers(c *config.Config) http.Header {
	headers := make(http.Header)
	for name, value := range c.Upstream.Headers {
		headers.Set(name, value)
	}
	return headers
}
