package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Options configures an engine.
type Options struct {
	Keys *seal.Keys
	// Sealed reports whether a namespace is sealed. Its answers never change.
	Sealed func(namespace string) bool
	// Earlier holds this host's earlier names: versions under them are given back under the present one.
	Earlier upstream.Earlier
	// Logger must not be nil.
	Logger *slog.Logger
}

// Engine is an engine that seals. Its methods may be called concurrently.
type Engine struct {
	inner upstream.Backend
	opts  Options

	mu     sync.Mutex // guards the fields below
	names  recent[*seal.Namespace]
	plain  recent[string]       // namespaces in use, by their hidden names; empty without a view
	forgot time.Time            // when names were last dropped from plain
	closed map[journal.ID]error // why an entry did not open when upstream last showed it, or without a key, names
}

const (
	mostClosed = 1000
	// mostNames bounds the namespaces whose keys stay derived, some KiB each. Deriving them takes microseconds.
	mostNames = 1024
	// mostPlain bounds the namespaces whose changes a view tells. See [view.CaughtUp].
	mostPlain = 1 << 14
)

// New returns an engine around another one. host names this daemon in the versions of an engine that stores
// no writer.
func New(inner upstream.Backend, host string, opts Options) *Engine {
	if inner.Host == "" {
		inner.Host = host
	}
	return &Engine{
		inner: inner, opts: opts,
		names: recent[*seal.Namespace]{most: mostNames}, plain: recent[string]{most: mostPlain}, closed: make(map[journal.ID]error),
	}
}

// Backend returns the engine with all that the inner one can do.
func (e *Engine) Backend() upstream.Backend {
	b := upstream.Backend{Engine: e, Host: e.inner.Host, View: nil, Revisions: nil, Purge: nil}
	if e.inner.View != nil {
		b.View = view{e.inner.View, e}
	}
	if e.inner.Revisions != nil {
		b.Revisions = e.revisions
	}
	if e.inner.Purge != nil {
		b.Purge = e.purge
	}
	return b
}

// NotOpened returns, by namespace, an entry that upstream has shown and that does not open, and why.
func (e *Engine) NotOpened() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]string)
	for _, id := range slices.SortedFunc(maps.Keys(e.closed), func(a, b journal.ID) int { return strings.Compare(a.Key, b.Key) }) {
		all[id.Namespace] = strings.TrimPrefix(id.Key+": "+e.closed[id].Error(), ": ")
	}
	return all
}

// of returns what seals a namespace; nil if it is not sealed.
func (e *Engine) of(namespace string) *seal.Namespace {
	if !e.opts.Sealed(namespace) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.derived(namespace)
	if e.inner.View != nil {
		if _, dropped := e.plain.use(n.Name(), func() string { return namespace }); dropped {
			e.forgot = time.Now()
		}
	}
	return n
}

// derived returns what seals a namespace. The caller holds the lock.
func (e *Engine) derived(namespace string) *seal.Namespace {
	n, _ := e.names.use(namespace, func() *seal.Namespace { return e.opts.Keys.For(namespace) })
	return n
}

// unhidden returns an entry by its plain name if its namespace is in use; ok is false if its key does not open then.
func (e *Engine) unhidden(id journal.ID) (_ journal.ID, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	namespace, sealed := e.plain.find(id.Namespace)
	if !sealed {
		return id, true
	}
	id.Namespace = namespace
	id.Key, ok = e.derived(namespace).OpenKey(id.Key)
	return id, ok
}

var keyTooLong = fmt.Sprintf("Invalid key. Keys of a sealed namespace have at most %d characters.", seal.MostKey)

// Check refuses a write, or the key of a read with an empty value, that upstream would not take when sealed; nil
// if it would.
func (e *Engine) Check(id journal.ID, value string) *wire.Refusal {
	switch {
	case !e.opts.Sealed(id.Namespace):
	case len(id.Key) > seal.MostKey: // guard 23.5
		return wire.Detail(http.StatusBadRequest, keyTooLong)
	case !seal.Fits(value): // guard 23.6
		return wire.Detail(http.StatusRequestEntityTooLarge, "the value is too large for a sealed namespace: sealed, it would have more than "+
			strconv.Itoa(seal.Limit)+" characters. Nothing was written")
	}
	return nil
}

// hide returns an entry's name upstream, and what seals it; nil if its namespace is not sealed.
func (e *Engine) hide(id journal.ID) (n *seal.Namespace, hidden journal.ID, err error) {
	if n = e.of(id.Namespace); n == nil {
		return nil, id, nil
	}
	hidden.Namespace = n.Name()
	if id.Key == "" { // it names a namespace
		return n, hidden, nil
	}
	var ok bool
	if hidden.Key, ok = n.Key(id.Key); !ok {
		err = &upstream.Error{Verdict: upstream.Permanent, Answered: true, Reason: keyTooLong}
	}
	return n, hidden, err
}

// Exact implements [upstream.Engine].
func (e *Engine) Exact() bool { return e.inner.Exact() }

// Named implements [upstream.Engine]: a sealed value names its writer and time.
func (e *Engine) Named(namespace string) bool {
	return e.opts.Sealed(namespace) || e.inner.Named(namespace)
}

// Known implements [upstream.Engine]. Of another host's value nobody knows without a request if it opens.
func (e *Engine) Known(id journal.ID) (upstream.Version, bool) {
	n, hidden, err := e.hide(id)
	if err != nil {
		return upstream.Version{}, false
	}
	v, ok := e.inner.Known(hidden)
	if n != nil && v.Present() && v.Writer.Host != e.inner.Host { // guard 23.31
		return upstream.Version{}, false
	}
	return v, ok
}

// Use makes the view call the changes of a sealed namespace by its plain name from now on, until many others have
// been used. Each use of the namespace does the same.
func (e *Engine) Use(namespace string) { e.of(namespace) }

// Get implements [upstream.Engine].
func (e *Engine) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	n, hidden, err := e.hide(id)
	if err != nil {
		return upstream.Version{}, err
	}
	v, err := e.inner.Get(ctx, hidden)
	if err != nil {
		return upstream.Version{}, veiled(err, n)
	}
	v, refused := e.open(n, id, v)
	return v, e.shown(id, refused)
}

// open returns a version with its plain value, or why it is refused.
func (e *Engine) open(n *seal.Namespace, id journal.ID, v upstream.Version) (opened upstream.Version, refused error) {
	if n == nil || !v.Present() {
		return v, nil
	}
	value, _, err := n.Open(id.Key, v.Value)
	if err != nil {
		return upstream.Version{}, err
	}
	v.Value, v.ListBytes, v.Author = value.Value, wire.ListBytes(value.Value), value.Author
	v.Writer = e.opts.Earlier.Of(upstream.Writer{Host: value.Host, Seq: value.Seq}, e.inner.Host)
	if at := float64(value.WrittenAt) / 1e6; e.inner.Exact() {
		v.WrittenAt = at
	} else {
		v.MadeAt = at
	}
	return v, nil
}

// shown notes whether the last value that upstream has shown of an entry opens, and returns the error for one
// that is refused.
func (e *Engine) shown(id journal.ID, refused error) error {
	if e.note(id, refused); refused == nil {
		return nil
	}
	failed := &upstream.Error{Verdict: upstream.Permanent, Answered: true, Held: true, Reason: "upstream's value is refused: " + refused.Error()}
	if mayBeRight(refused) {
		failed.Verdict = upstream.Paused
	}
	return failed
}

// note notes why an entry does not open or, without a key, names of the namespace; nil if all is well.
func (e *Engine) note(id journal.ID, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.closed[id]
	switch {
	case why == nil:
		delete(e.closed, id)
	case known:
		e.closed[id] = why
	case len(e.closed) < mostClosed:
		e.closed[id] = why
		e.opts.Logger.Warn("upstream shows in a sealed namespace what is refused: the copy here answers, if there is one",
			"namespace", id.Namespace, "key", id.Key, "reason", why)
	}
}

// mayBeRight reports whether a value that is refused may be one that another host can open.
func mayBeRight(refused error) bool {
	_, unknown := errors.AsType[*seal.UnknownKey](refused)
	return unknown || errors.Is(refused, seal.ErrNewer) // guard 23.3
}

// veiled removes what upstream says of hidden names and sealed values: it is not for callers.
func veiled(err error, n *seal.Namespace) error {
	var failed *upstream.Error
	if n == nil || !errors.As(err, &failed) {
		return err
	}
	said := *failed
	if bytes.Contains(said.Answer, []byte(n.Name())) || bytes.Contains(said.Answer, []byte(seal.Prefix)) {
		said.Answer = nil
	}
	said.Reason = strings.ReplaceAll(said.Reason, n.Name(), "(sealed)")
	return &said
}

// List implements [upstream.Engine]. The sizes of its rows are those of the sealed values.
func (e *Engine) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	n := e.of(namespace)
	if n == nil {
		return e.inner.List(ctx, namespace)
	}
	hidden, complete, err := e.inner.List(ctx, n.Name())
	if err != nil {
		return nil, false, veiled(err, n)
	}
	rows = opened(n, hidden)
	var names error
	if dropped := len(hidden) - len(rows); dropped > 0 {
		names = errors.New(words.Plural(dropped, "name") + " that no key opens")
	}
	e.note(journal.ID{Namespace: namespace}, names)
	if complete {
		e.mu.Lock()
		defer e.mu.Unlock()
		maps.DeleteFunc(e.closed, func(id journal.ID, _ error) bool {
			return id.Namespace == namespace && id.Key != "" && !slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Key == id.Key })
		})
	}
	return rows, complete, nil
}

// opened returns the rows with their plain keys, without those whose names do not open.
func opened(n *seal.Namespace, hidden []journal.Row) (rows []journal.Row) {
	for _, row := range hidden {
		key, ok := n.OpenKey(row.Key)
		if !ok { // guard 23.4
			continue
		}
		row.Key, row.Rough = key, true
		rows = append(rows, row)
	}
	return rows
}

// mostReplaced bounds how many versions that are not authentic one write of an exact engine replaces.
const mostReplaced = 3

// Swap implements [upstream.Engine].
func (e *Engine) Swap(ctx context.Context, p upstream.Proposal) (v upstream.Version, err error) {
	n, hidden, err := e.hide(p.ID)
	switch {
	case err != nil:
		return upstream.Version{}, err
	case n == nil:
		return e.inner.Swap(ctx, p)
	}
	sealed := p
	sealed.ID, sealed.Value, sealed.ListBytes, sealed.Author = hidden, "", 0, ""
	if p.Op == journal.Put {
		sealed.Value = n.Seal(p.Key, seal.Value{
			WrittenAt: upstream.Micros(p.WrittenAt), Host: p.Writer.Host, Seq: p.Writer.Seq, Author: p.Author, Value: p.Value,
		})
		sealed.ListBytes = len(sealed.Value)
	}
	for range mostReplaced {
		v, err = e.inner.Swap(ctx, sealed)
		var conflict *upstream.Conflict
		if !errors.As(err, &conflict) || conflict.Now == nil {
			break
		}
		now, refused := e.open(n, p.ID, *conflict.Now)
		failed := e.shown(p.ID, refused)
		switch {
		case refused == nil:
			return upstream.Version{}, &upstream.Conflict{Now: &now}
		case mayBeRight(refused):
			return upstream.Version{}, failed
		}
		sealed.Over = *conflict.Now
		err = &upstream.Conflict{} // guard 23.26
	}
	if err != nil {
		return upstream.Version{}, veiled(err, n)
	}
	e.note(p.ID, nil)
	if v.Value, v.ListBytes, v.Author = p.Value, p.ListBytes, p.Author; !e.inner.Exact() {
		v.Writer, v.MadeAt = p.Writer, p.WrittenAt
	}
	return v, nil
}

// revisions is that of [upstream.Backend]. Versions that are not authentic are left out.
func (e *Engine) revisions(ctx context.Context, id journal.ID) (versions []upstream.Version, err error) {
	n, hidden, err := e.hide(id)
	if err != nil {
		return nil, err
	}
	all, err := e.inner.Revisions(ctx, hidden)
	if err != nil {
		return nil, veiled(err, n)
	}
	for _, v := range all {
		if v, err := e.open(n, id, v); err == nil {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

// purge is that of [upstream.Backend].
func (e *Engine) purge(ctx context.Context, of journal.ID) error {
	n, hidden, err := e.hide(of)
	if err != nil {
		return err
	}
	return veiled(e.inner.Purge(ctx, hidden), n)
}
