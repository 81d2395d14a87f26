package sim

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// audit stands on both sides of the sealing of all hosts. It knows what they have sealed, and compares how
// each answer of upstream was taken with that.
type audit struct {
	mu     sync.Mutex
	sealed map[journal.ID]map[string]upstream.Proposal // what was sealed, by hidden name and sealed value
	names  map[journal.ID]string                       // the keys, by hidden name
	nonces map[string]string                           // the sealed values, by key ID and nonce
	wrong  []string

	accepted, refused, locked, dropped int
}

func newAudit() *audit {
	return &audit{sealed: make(map[journal.ID]map[string]upstream.Proposal), names: make(map[journal.ID]string), nonces: make(map[string]string)}
}

// watch has a daemon with the keys watched.
func (a *audit) watch(with *settings, keys *seal.Keys) {
	with.keys = keys
	with.engine = func(e upstream.Engine) upstream.Engine { return hiddenSide{e, a} }
	with.opened = func(e upstream.Engine) upstream.Engine { return plainSide{e, a, keys.IDs()} }
}

// passage is what one request looks like on the hidden side.
type passage struct {
	plain journal.ID
	write upstream.Proposal // as it was before it was sealed
	id    journal.ID
	shown upstream.Version
	rows  []journal.Row
}

// passes is the key under which a request's context has its passage.
type passes struct{}

// hiddenSide is the engine below the sealing.
type hiddenSide struct {
	upstream.Engine
	a *audit
}

func (e hiddenSide) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	v, err := e.Engine.Get(ctx, id)
	p := ctx.Value(passes{}).(*passage)
	p.id, p.shown = id, v
	e.a.named(id, p.plain)
	return v, err
}

func (e hiddenSide) List(ctx context.Context, namespace string) ([]journal.Row, bool, error) {
	rows, complete, err := e.Engine.List(ctx, namespace)
	p := ctx.Value(passes{}).(*passage)
	p.id.Namespace, p.rows = namespace, rows
	return rows, complete, err
}

func (e hiddenSide) Swap(ctx context.Context, write upstream.Proposal) (upstream.Version, error) {
	p := ctx.Value(passes{}).(*passage)
	e.a.named(write.ID, p.plain)
	if write.Op == journal.Put {
		e.a.seals(write.ID, write.Value, p.write)
	}
	return e.Engine.Swap(ctx, write)
}

func (a *audit) fail(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

func (a *audit) named(hidden, plain journal.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if key, ok := a.names[hidden]; ok && key != plain.Key {
		a.fail("%s hides %q and %q", hidden, key, plain.Key)
	}
	a.names[hidden] = plain.Key
}

// seals takes in a sealed value. None has another one's nonce.
func (a *audit) seals(hidden journal.ID, text string, plain upstream.Proposal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, seal.Prefix))
	if err != nil || len(raw) < keyAndNonce {
		a.fail("%q is no sealed value", text)
		return
	}
	nonce := string(raw[:keyAndNonce])
	if other, ok := a.nonces[nonce]; ok && other != text {
		a.fail("%+v has the nonce of another value", plain)
	}
	a.nonces[nonce] = text
	if a.sealed[hidden] == nil {
		a.sealed[hidden] = make(map[string]upstream.Proposal)
	}
	a.sealed[hidden][text] = plain
}

// keyAndNonce is where the ciphertext of a sealed value begins.
const keyAndNonce = 8 + 24

// plainSide is the sealing engine.
type plainSide struct {
	upstream.Engine
	a   *audit
	ids []string // of the keys that it has
}

func (e plainSide) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	p := &passage{plain: id}
	v, err := e.Engine.Get(context.WithValue(ctx, passes{}, p), id)
	e.a.judge(p, v, err, e.ids)
	return v, err
}

func (e plainSide) List(ctx context.Context, namespace string) ([]journal.Row, bool, error) {
	p := &passage{plain: journal.ID{Namespace: namespace}}
	rows, complete, err := e.Engine.List(context.WithValue(ctx, passes{}, p), namespace)
	e.a.judgeRows(p, rows)
	return rows, complete, err
}

func (e plainSide) Swap(ctx context.Context, write upstream.Proposal) (upstream.Version, error) {
	return e.Engine.Swap(context.WithValue(ctx, passes{}, &passage{plain: write.ID, write: write}), write)
}

// sameWriter reports whether two writers are one: a clone that was started anew has what is in its copy under its own name.
func sameWriter(a, b upstream.Writer) bool {
	return a.Seq == b.Seq && strings.TrimSuffix(a.Host, cloned) == strings.TrimSuffix(b.Host, cloned)
}

// judge compares what a host has made of an answer with what was sealed.
func (a *audit) judge(p *passage, v upstream.Version, err error, ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	write, authentic := a.sealed[p.id][p.shown.Value]
	switch {
	case !p.shown.Present():
		if v.Present() {
			a.fail("%s is %q, and upstream has shown nothing", p.plain, v.Value)
		}
	case !authentic:
		a.refused++
		if err == nil {
			a.fail("a forgery is accepted as %s: %.60q", p.plain, p.shown.Value)
		}
	case !slices.Contains(ids, keyOf(p.shown.Value)):
		a.locked++
		if failed := upstream.ErrorOf(err); failed == nil || failed.Verdict != upstream.Paused || !strings.Contains(failed.Reason, keyOf(p.shown.Value)) {
			a.fail("%s is under a key that is not here: %v", p.plain, err)
		}
	default:
		a.accepted++
		if err != nil || v.Value != write.Value || !sameWriter(v.Writer, write.Writer) || upstream.Micros(v.MadeAt) != upstream.Micros(write.WrittenAt) {
			a.fail("%s is authentic, and taken for %+v, %v: want %+v", p.plain, v, err, write)
		}
	}
}

// keyOf returns the ID of the key of a sealed value.
func keyOf(text string) string {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, seal.Prefix))
	if err != nil || len(raw) < keyAndNonce {
		return ""
	}
	return fmt.Sprintf("%x", raw[:8])
}

// judgeRows compares a listing with the names that hosts have made in its namespace.
func (a *audit) judgeRows(p *passage, rows []journal.Row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var want, got []string
	for _, r := range p.rows {
		if key, ok := a.names[journal.ID{Namespace: p.id.Namespace, Key: r.Key}]; ok {
			want = append(want, key)
		}
	}
	for _, r := range rows {
		got = append(got, r.Key)
	}
	a.dropped += len(p.rows) - len(want)
	if !slices.Equal(got, want) {
		a.fail("the rows of %s are %q, want %q", p.plain.Namespace, got, want)
	}
}
