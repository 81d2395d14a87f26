package surface

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const linesType = "application/jsonl"

// export streams a line for each entry of a namespace. The last line has the counts, and says whether
// the export is complete. Without that line, the reader knows that the answer was cut off.
func (s *Surface) export(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace := p.givenNamespace()
	if p.Err != nil {
		return p.Err
	}
	end, err := s.BeginWait() // for a reader that is slow
	if err != nil {
		return err // guard 16.50
	}
	defer end()
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
	to, entries := bufio.NewWriterSize(patientWriter{w, answerTime}, linesBuffer), 0
	err = x.Entries(ctx, to.Flush, func(item *cache.Item) error {
		entries++
		_, err := to.Write(exportLine(item))
		return err
	})
	if r.Context().Err() != nil {
		return nil // the caller has gone
	}
	if err != nil {
		x.Say("botwired stopped before the end")
		if ctx.Err() == nil {
			s.opts.Logger.Error("an export was cut off", "namespace", namespace, "error", err)
			x.Why = "botwired stopped before the end, because of an error: see its log"
		}
	}
	counts := api.ExportCounts{Namespace: namespace, Entries: entries, Missing: x.Missing, Complete: x.Why == "", Why: x.Why}
	if err := json.NewEncoder(to).Encode(api.ExportEnd{End: counts}); err != nil {
		return err
	}
	return to.Flush()
}

func exportLine(item *cache.Item) []byte {
	body := item.Body
	line := append(make([]byte, 0, len(body)+lineFields), body[:len(body)-len("}")]...)
	if item.ConfirmedAt.IsZero() {
		return append(line, `,"state":"pending"}`+"\n"...)
	}
	return append(line, `,"state":"settled"}`+"\n"...)
}

const lineFields = 24

const linesBuffer = 32 << 10

// importTime is about how long one import request may wait and work: a caller sends the remaining lines
// in further requests. So the caller soon learns that its import waits.
const importTime = 10 * time.Second

// takeImport answers 200 when all lines are done. An invalid line refuses the whole request, and nothing of
// it is done.
func (s *Surface) takeImport(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace := p.namespace()
	if p.Err != nil {
		return p.Err
	}
	body, room, refusal := s.bodies.Read(w, r)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	entries, numbers, lines, err := s.parseImport(body, namespace)
	if err != nil {
		return err
	}
	ctx, end, err := s.within(w, r, p, importTime)
	if err != nil {
		return err
	}
	defer end()
	end, ok := s.importer.Begin(ctx)
	if !ok {
		return writeLater(w, http.StatusServiceUnavailable, api.Imported{Detail: "another import is under way: try again"})
	}
	defer end()
	imported, err := s.importer.Import(ctx, entries)
	s.Measures.imported.Add(int64(imported.Written))
	doc := api.Imported{Lines: lines, Written: imported.Written, Same: imported.Same, Older: imported.Older}
	if err != nil && len(entries) > imported.Taken {
		doc.Lines = numbers[imported.Taken] - 1
	}
	return finishImport(ctx, w, doc, imported.Waits, err)
}

func writeLater(w http.ResponseWriter, status int, doc api.Imported) error {
	w.Header().Set("Retry-After", "1")
	return writeDocument(w, status, doc)
}

func finishImport(ctx context.Context, w http.ResponseWriter, doc api.Imported, waits string, err error) error {
	switch {
	case err == nil:
		return writeDocument(w, http.StatusOK, doc)
	case memory.IsNamespaceFull(err):
		doc.Detail = fmt.Sprintf("line %d cannot be imported: %v", doc.Lines+1, err)
		return writeDocument(w, http.StatusRequestEntityTooLarge, doc)
	case errors.Is(err, journal.ErrFull):
		doc.Detail = "the import waits: " + err.Error()
		return writeLater(w, http.StatusInsufficientStorage, doc)
	case ctx.Err() == nil:
		return err
	}
	doc.Detail = "the import goes on with the lines that are left: send them again"
	if waits != "" {
		doc.Detail = "the import waits: " + waits
	}
	return writeLater(w, http.StatusServiceUnavailable, doc)
}

// parseImport parses the entries in a body. A given namespace replaces those in the lines. One invalid line
// refuses the whole body. numbers holds the line number of each entry, from 1 on.
func (s *Surface) parseImport(body []byte, namespace string) (entries []memory.ImportedEntry, numbers []int, lines int, err error) {
	for raw := range bytes.Lines(body) {
		lines++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		line, err := api.ParseImportLine(raw)
		if namespace != "" {
			line.Namespace = namespace
		}
		entry := memory.ImportedEntry{ID: journal.ID{Namespace: line.Namespace, Key: line.Key}, Value: line.Value, UpdatedAt: line.UpdatedAt}
		if err == nil && line.End == nil && s.opts.Check != nil {
			if refusal := s.opts.Check(entry.ID, entry.Value); refusal != nil { // guard 23.33
				err = errors.New(refusal.Text())
			}
		}
		if err != nil {
			return nil, nil, 0, wire.Detail(http.StatusBadRequest,
				fmt.Sprintf("line %d cannot be imported, and nothing of the request is: %v", lines, err))
		}
		if line.End != nil {
			continue
		}
		entries = append(entries, entry)
		numbers = append(numbers, lines)
	}
	return entries, numbers, lines, nil
}
