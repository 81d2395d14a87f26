package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Options configures an engine.
type Options struct {
	Keys *seal.Keys
	// Sealed reports whether a namespace is sealed. Its answers never change.
	Sealed func(namespace string) bool
	// Logger must not be nil.
	Logger *slog.Logger
}

// Engine is an engine that seals. Its methods may be called concurrently.
type Engine struct {
	inner upstream.Backend
	opts  Options

	mu     sync.Mutex // guards the fields below
	names  map[string]*seal.Namespace
	plain  map[string]string // namespaces in use, by their hidden names
	states map[string]State
}

// State says what upstream has shown of a sealed namespace since the start that was not accepted.
type State struct {
	Refused int    // values that are not authentic or cannot be opened
	Key     string // the entry of the last one
	Reason  string // why it was refused
	Names   int    // names of the last listing that did not open
}

// New returns an engine around another one. host names this daemon in the versions of an engine that stores
// no writer.
func New(inner upstream.Backend, host string, opts Options) *Engine {
	if inner.Host == "" {
		inner.Host = host
	}
	return &Engine{
		inner: inner, opts: opts,
		names: make(map[string]*seal.Namespace), plain: make(map[string]string), states: make(map[string]State),
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

// States returns the states of the sealed namespaces in which upstream has shown something that was not
// accepted.
func (e *Engine) States() map[string]State {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]State)
	maps.Copy(out, e.states)
	maps.DeleteFunc(out, func(_ string, s State) bool { return s == State{} })
	return out
}

// of returns what seals a namespace; nil if it is not sealed.
func (e *Engine) of(namespace string) *seal.Namespace {
	if !e.opts.Sealed(namespace) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.names[namespace]
	if n == nil {
		n = e.opts.Keys.For(namespace)
		e.names[namespace], e.plain[n.Name()] = n, namespace
	}
	return n
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

// Known implements [upstream.Engine].
func (e *Engine) Known(id journal.ID) (upstream.Version, bool) {
	_, hidden, err := e.hide(id)
	if err != nil {
		return upstream.Version{}, false
	}
	return e.inner.Known(hidden)
}

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
	return e.open(n, id, v)
}

// open returns a version with its plain value.
func (e *Engine) open(n *seal.Namespace, id journal.ID, v upstream.Version) (upstream.Version, error) {
	if n == nil || !v.Present() {
		return v, nil
	}
	value, _, err := n.Open(id.Key, v.Value)
	if err != nil {
		return upstream.Version{}, e.refuse(id, err)
	}
	v.Value, v.ListBytes, v.Author = value.Value, wire.ListBytes(value.Value), value.Author
	v.Writer = upstream.Writer{Host: value.Host, Seq: value.Seq}
	if at := float64(value.WrittenAt) / 1e6; e.inner.Exact() {
		v.WrittenAt = at
	} else {
		v.MadeAt = at
	}
	return v, nil
}

// refuse returns the error of a value that does not open, and counts it.
func (e *Engine) refuse(id journal.ID, why error) *upstream.Error {
	failed := &upstream.Error{Verdict: upstream.Permanent, Answered: true, Held: true, Reason: "upstream's value is refused: " + why.Error()}
	var unknown *seal.UnknownKey
	if errors.As(why, &unknown) || errors.Is(why, seal.ErrNewer) { // guard 23.3
		failed.Verdict = upstream.Paused // it may be right
	}
	e.mu.Lock()
	s := e.states[id.Namespace]
	begins := s.Reason != failed.Reason
	s.Refused++
	s.Key, s.Reason = id.Key, failed.Reason
	e.states[id.Namespace] = s
	e.mu.Unlock()
	if begins {
		e.opts.Logger.Error("upstream shows a value in a sealed namespace that is refused: the copy here answers, if there is one",
			"namespace", id.Namespace, "key", id.Key, "reason", why.Error())
	}
	return failed
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
	rows, dropped := opened(n, hidden)
	e.mu.Lock()
	s := e.states[namespace]
	begins := s.Names == 0 && dropped > 0
	s.Names = dropped
	e.states[namespace] = s
	e.mu.Unlock()
	if begins {
		e.opts.Logger.Warn("upstream lists names in a sealed namespace that do not open: they are left out",
			"namespace", namespace, "names", dropped)
	}
	return rows, complete, nil
}

// opened returns the rows with their plain keys, and how many names do not open.
func opened(n *seal.Namespace, hidden []journal.Row) (rows []journal.Row, dropped int) {
	for _, row := range hidden {
		key, ok := n.OpenKey(row.Key)
		if !ok { // guard 23.4
			dropped++
			continue
		}
		row.Key, row.Rough = key, true
		rows = append(rows, row)
	}
	return rows, dropped
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
		if refused == nil {
			return upstream.Version{}, &upstream.Conflict{Now: &now}
		}
		if upstream.ErrorOf(refused).Verdict == upstream.Paused {
			return upstream.Version{}, refused
		}
		sealed.Over = *conflict.Now
		err = &upstream.Conflict{} // guard 23.26
	}
	if err != nil {
		return upstream.Version{}, veiled(err, n)
	}
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
