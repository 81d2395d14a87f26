package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// exportStep is how many keys an export looks up at a time.
	exportStep = 256
	// linesType is the media type of JSON Lines.
	linesType = "application/jsonl"
)

// exporter answers with all entries of a namespace as a reader would see them, one after the
// other, in the order of their keys: with pending writes laid over what upstream holds.
type exporter struct{ *memory }

// answer writes a line for each entry, and at last one that says how many there were and
// whether that is all: so a reader notices when the answer was cut off.
func (e exporter) answer(w http.ResponseWriter, r *http.Request) error {
	namespace, err := givenNamespace(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(e.tasks.detached(), cancel)()
	x := &export{exporter: e, namespace: namespace, lines: newLines(w)}
	if err := x.list(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", linesType)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	err = x.writeEntries(ctx)
	if r.Context().Err() != nil {
		return nil // nobody reads on
	}
	if err != nil {
		x.say("botwired stopped before the end")
		if ctx.Err() == nil {
			e.fetches.logger.Error("an export was cut off", "namespace", namespace, "error", err)
			x.why = "botwired stopped before the end, because of an error: see its log"
		}
	}
	return x.writeEnd()
}

// givenNamespace is the parameter namespace, which must be there.
func givenNamespace(r *http.Request) (string, error) {
	namespace, err := namespaceParameter(r)
	if err == nil && namespace == "" {
		err = errNoNamespace
	}
	return namespace, err
}

var errNoNamespace = wire.Detail(http.StatusBadRequest, "the parameter namespace is missing: expected the name of a namespace")

// export is one export under way.
type export struct {
	exporter
	namespace string
	lines     *lines
	entries   int
	missing   int    // keys whose values nobody could tell
	why       string // the export may not be all; "" if it is
}

// say notes why the export may not be all. The first reason counts.
func (x *export) say(why string) {
	if x.why == "" {
		x.why = why
	}
}

// list has upstream list the namespace's keys, unless the last listing is fresh. It reads no rows:
// a large namespace has many.
func (x *export) list() error {
	from := &listing{x.memory, x.namespace, 1}
	x.used.note(x.namespace)
	generation := x.cache.Generation(from.key())
	head, kept, err := x.journal.Listings.Head(x.namespace)
	if err != nil {
		return err
	}
	incomplete, found := !head.Complete, found{freshness: cache.Worthless}
	if kept {
		found = x.judge(x.namespace, anyAge, &cache.Item{Body: []byte{}, ConfirmedAt: head.FetchedAt, Incomplete: incomplete}, generation)
	}
	if found.freshness != cache.Fresh {
		got, err := x.fetches.wait(from, true, from.patience())
		switch {
		case err == nil:
			incomplete = got.item(from.key()).Incomplete
		case !kept:
			x.say(fmt.Sprintf("upstream has never listed the namespace, and %v: entries of which botwired does not know are missing", err))
			return nil
		case !isNoAnswer(err):
			return err
		default:
			x.say(fmt.Sprintf("%v: entries that other hosts have made since its last list may be missing", err))
		}
	}
	if incomplete { // guard 9.30
		x.say(fmt.Sprintf("upstream lists no more than its newest %d keys: others, of which botwired does not know, are missing", maxListLimit))
	}
	return nil
}

// exported is an entry on its way into the export. An item without a body is no entry any more.
type exported struct {
	item *cache.Item
	err  error // nobody can tell the value
}

// writeEntries writes the lines of the entries in order.
func (x *export) writeEntries(ctx context.Context) error {
	produce := func(ctx context.Context, add func(func() (exported, error)) error) error {
		return x.visit(ctx, func(id journal.ID, confirmedAt time.Time) error {
			return add(func() (exported, error) { return x.lookUpEntry(id, confirmedAt) })
		})
	}
	return inOrder(ctx, x.fetches.logger, produce, x.lines.flush, x.writeEntry)
}

// visit calls do for each key. The time is that of the listing if it has shown the entry's copy
// as it is, else zero.
func (x *export) visit(ctx context.Context, do func(id journal.ID, confirmedAt time.Time) error) error {
	for last := ""; ; {
		keys, listed, err := x.journal.Keys.After(x.namespace, last, exportStep)
		if err != nil {
			return err
		}
		for _, k := range keys {
			at := time.Time{}
			if k.Confirmed {
				at = listed.FetchedAt
			}
			if err := errors.Join(ctx.Err(), do(journal.ID{Namespace: x.namespace, Key: k.Key}, at)); err != nil {
				return err
			}
			last = k.Key
		}
		if len(keys) < exportStep {
			return nil
		}
	}
}

// lookUpEntry finds what is known of an entry. If that is neither fresh nor good enough to be
// answered while upstream is asked, it asks upstream.
func (x *export) lookUpEntry(id journal.ID, confirmedAt time.Time) (exported, error) {
	generation := x.cache.Generation(entryKey(id))
	state, err := x.journal.Lookup(id)
	if err != nil {
		return exported{}, err
	}
	known := x.coherence.layView(id, &state, nil)
	if known.buries {
		if err := bury(x.memory, id); err != nil {
			return exported{}, err
		}
	}
	item := known.item
	if item != nil && !item.Outdated && !item.ConfirmedAt.IsZero() && !state.InDoubt && confirmedAt.After(item.ConfirmedAt) {
		item.ConfirmedAt = confirmedAt
	}
	found := x.judge(id.Namespace, anyAge, item, generation)
	if found.freshness <= cache.Stale {
		return exported{item: item}, nil
	}
	from := newEntry(x.memory, id, generation, false)
	got, err := x.fetchFor(found.freshness, from)
	switch {
	case err == nil:
		return exported{item: got.item(from.key())}, nil
	case found.freshness == cache.Fallback && isNoAnswer(err):
		return exported{item: item}, nil
	}
	return exported{err: err}, nil
}

// writeEntry writes an entry's line: what a GET is answered with, and where that is from.
func (x *export) writeEntry(found exported) error {
	switch {
	case found.err != nil:
		x.missing++
		x.say(fmt.Sprintf("the values of some keys are not known here, and %v", found.err))
		return nil //nolint:nilerr // the last line counts it
	case found.item.Body == nil:
		return nil // deleted meanwhile
	}
	x.entries++
	body := found.item.Body
	line := append(make([]byte, 0, len(body)+lineFields), body[:len(body)-len("}")]...)
	if at := found.item.ConfirmedAt; at.IsZero() {
		line = append(line, `,"state":"pending"}`...)
	} else {
		line = append(line, `,"state":"settled","confirmed_at":`...)
		line = append(appendMoment(line, at), '}')
	}
	return x.lines.write(line)
}

// lineFields is how many bytes an entry's line has beside those of a GET's answer.
const lineFields = 80

// appendMoment appends a time in Unix seconds, null if nobody knows it.
func appendMoment(dst []byte, at time.Time) []byte {
	if cache.Age(at, time.Now()) == cache.Forever {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, float64(at.UnixMicro())/1e6, 'f', -1, 64)
}

func (x *export) writeEnd() error {
	line, err := json.Marshal(api.ExportEnd{End: api.ExportCounts{Namespace: x.namespace, Entries: x.entries, Missing: x.missing, Complete: x.why == "", Why: x.why}})
	if err == nil {
		err = x.lines.write(line)
	}
	if err == nil {
		err = x.lines.flush()
	}
	return err
}

// lines are an answer of JSON Lines, which may take any time as long as the caller reads on.
type lines struct {
	to  *http.ResponseController
	buf *bufio.Writer
}

// linesBuffer is how many bytes of lines are sent together.
const linesBuffer = 32 << 10

func newLines(w http.ResponseWriter) *lines {
	return &lines{http.NewResponseController(w), bufio.NewWriterSize(w, linesBuffer)}
}

// write adds a line.
func (l *lines) write(line []byte) error {
	if len(line) >= l.buf.Available() {
		if err := l.allow(); err != nil {
			return err
		}
	}
	_, err := l.buf.Write(append(line, '\n'))
	return err
}

// flush sends the lines that there are.
func (l *lines) flush() error {
	if l.buf.Buffered() == 0 {
		return nil
	}
	if err := l.allow(); err != nil {
		return err
	}
	if err := l.buf.Flush(); err != nil {
		return err
	}
	return supported(l.to.Flush())
}

// allow gives the caller time to take what is sent next.
func (l *lines) allow() error { return supported(l.to.SetWriteDeadline(time.Now().Add(answerTime))) }

// supported ignores that a writer, of a test, is no connection.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
