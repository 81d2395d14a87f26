package surface

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
)

const linesType = "application/jsonl"

// export streams a line for each entry of a namespace. The last line has the counts, and says whether
// the export is complete. Without that line, the reader knows that the answer was cut off.
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
