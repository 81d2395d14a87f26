package surface

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
)

const linesType = "application/jsonl"

// export answers with all entries of a namespace. It writes a line for each entry, and at last one that says how many there were and
// whether that is all: so a reader notices when the answer was cut off.
func (s *Surface) export(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace := p.givenNamespace()
	if p.Err != nil {
		return p.Err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.tasks.Detached(), cancel)()
	x, err := s.memory.Export(namespace)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", linesType)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	to, entries := newLines(w), 0
	err = x.Entries(ctx, to.flush, func(item *cache.Item) error {
		entries++
		return to.write(exportLine(item))
	})
	if r.Context().Err() != nil {
		return nil // nobody reads on
	}
	if err != nil {
		x.Say("botwired stopped before the end")
		if ctx.Err() == nil {
			s.opts.Logger.Error("an export was cut off", "namespace", namespace, "error", err)
			x.Why = "botwired stopped before the end, because of an error: see its log"
		}
	}
	return to.end(api.ExportCounts{Namespace: namespace, Entries: entries, Missing: x.Missing, Complete: x.Why == "", Why: x.Why})
}

func exportLine(item *cache.Item) []byte {
	body := item.Body
	line := append(make([]byte, 0, len(body)+lineFields), body[:len(body)-len("}")]...)
	if item.ConfirmedAt.IsZero() {
		return append(line, `,"state":"pending"}`...)
	}
	return append(line, `,"state":"settled"}`...)
}

const lineFields = 24

// lines are an answer of JSON Lines, which may take any time as long as the caller reads on.
type lines struct {
	to  *http.ResponseController
	buf *bufio.Writer
}

const linesBuffer = 32 << 10

func newLines(w http.ResponseWriter) *lines {
	return &lines{http.NewResponseController(w), bufio.NewWriterSize(w, linesBuffer)}
}

func (l *lines) write(line []byte) error {
	if len(line) >= l.buf.Available() {
		if err := l.allow(); err != nil {
			return err
		}
	}
	_, err := l.buf.Write(append(line, '\n'))
	return err
}

func (l *lines) end(counts api.ExportCounts) error {
	line, err := json.Marshal(api.ExportEnd{End: counts})
	if err == nil {
		err = l.write(line)
	}
	if err == nil {
		err = l.flush()
	}
	return err
}

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

func (l *lines) allow() error { return supported(l.to.SetWriteDeadline(time.Now().Add(answerTime))) }
