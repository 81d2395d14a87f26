package proxy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// register is an entry with known versions. Its one writer makes version after version, each a value that is
// the version's number, or a delete. A reader's answer must lie between the newest version that was certain
// when the read began and the newest that had begun when it ended.
type register struct {
	id      journal.ID
	deletes bool         // every third version is a delete
	begun   atomic.Int64 // newest version that was sent
	certain atomic.Int64 // newest version that was acknowledged or read
}

func (r *register) isDelete(version int64) bool { return r.deletes && version%3 == 0 }

func (r *register) write(s *sidecar) error {
	version := r.begun.Add(1)
	method, body := http.MethodPut, putBody(strconv.FormatInt(version, 10))
	if r.isDelete(version) {
		method, body = http.MethodDelete, ""
	}
	if w := s.do(method, "/memory/"+r.id.String(), body); w.Code != http.StatusOK {
		return fmt.Errorf("%s of version %d of %s: %d %s", method, version, r.id, w.Code, w.Body)
	}
	r.sure(version)
	return nil
}

func (r *register) sure(version int64) {
	for {
		old := r.certain.Load()
		if old >= version || r.certain.CompareAndSwap(old, version) {
			return
		}
	}
}

func (r *register) read(s *sidecar, directive string) error {
	least := r.certain.Load()
	w := s.do(http.MethodGet, "/memory/"+r.id.String(), "", "Cache-Control", directive)
	most := r.begun.Load()
	switch w.Code {
	case http.StatusOK:
		var doc struct{ Value string }
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			return err
		}
		version, err := strconv.ParseInt(doc.Value, 10, 64)
		if err != nil || version < least || version > most || r.isDelete(version) {
			return fmt.Errorf("%s: version %s, possible are %d to %d (%s)", r.id, doc.Value, least, most, w.Header()["Cache-Status"])
		}
		r.sure(version)
		return nil
	case http.StatusNotFound:
		for version := least; version <= most; version++ {
			if version == 0 || r.isDelete(version) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: %d, possible are versions %d to %d (%s)", r.id, w.Code, least, most, w.Header()["Cache-Status"])
}

// list checks that an entry without deletes is never missing from the listing.
func (r *register) list(s *sidecar, directive string) error {
	least := r.certain.Load()
	w := s.do(http.MethodGet, "/memory/"+r.id.Namespace, "", "Cache-Control", directive)
	var doc listDocument
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		return fmt.Errorf("listing: %d, %w", w.Code, err)
	}
	for _, k := range doc.Keys {
		if k.Key == r.id.Key {
			return nil
		}
	}
	if r.deletes || least == 0 {
		return nil
	}
	return fmt.Errorf("%s is not listed, version %d was acknowledged", r.id, least)
}

// Contracts 5, 6, 7 and 8, with reads that ask upstream as often as possible, while writes come and settle.
func TestReadersNeverSeeAnEntryGoBack(t *testing.T) {
	policies := map[string]cache.Policy{
		"usual":      usual,
		"never kept": {StaleIfError: cache.Forever},
		"always stale": {
			StaleWhileRevalidate: cache.Forever / 2, StaleIfError: cache.Forever,
		},
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			s := newSidecar(t)
			s.policy = policy
			checkRegisters(t, s)
		})
	}
}

func checkRegisters(t *testing.T, s *sidecar) {
	const writes = 40
	var registers []*register
	for i := range 4 {
		registers = append(registers, &register{id: id("n", fmt.Sprint("k", i)), deletes: i%2 == 1})
	}
	var writing, rest sync.WaitGroup
	var stop atomic.Bool
	until := func(wg *sync.WaitGroup, act func() error) {
		wg.Go(func() {
			for !stop.Load() {
				if err := act(); err != nil {
					t.Error(err)
					stop.Store(true)
				}
			}
		})
	}
	for _, r := range registers {
		writing.Go(func() {
			for range writes {
				if err := r.write(s); err != nil {
					t.Error(err)
					return
				}
			}
		})
		until(&rest, func() error { return r.read(s, pick("", "", "no-cache", "max-age=0")) })
	}
	until(&rest, func() error { return registers[rand.IntN(len(registers))].list(s, pick("", "no-cache")) })
	until(&rest, func() error { s.flusher.settle(registers[rand.IntN(len(registers))].id); return nil })
	writing.Wait()
	stop.Store(true)
	rest.Wait()
	for _, r := range registers {
		if err := r.read(s, ""); err != nil {
			t.Error(err)
		}
	}
}

func pick(from ...string) string { return from[rand.IntN(len(from))] }

// Several writes become visible one right after another. An answer that a reader makes in between must not
// outlive the next write (contracts 6 and 8).
func TestAnAnswerMadeBeforeAWriteIsNotKept(t *testing.T) {
	s := newSidecar(t)
	for round := range 100 {
		k := id("n", strconv.Itoa(round))
		var writing, reading sync.WaitGroup
		var stop atomic.Bool
		for range 2 {
			reading.Go(func() {
				for !stop.Load() {
					get := simpleGet("/memory/" + k.String())
					s.server.AnswerSimple(&get, nil)
				}
			})
		}
		for i := range 4 {
			writing.Go(func() {
				put := simplePut("/memory/"+k.String(), putBody(strconv.Itoa(i)))
				if answer, _ := s.server.AnswerSimple(&put, nil); answer == nil {
					t.Error("a PUT is not acknowledged at once")
				}
			})
		}
		writing.Wait()
		stop.Store(true)
		reading.Wait()
		newest, _, err := s.journal.Newest(k)
		if err != nil {
			t.Fatal(err)
		}
		if got := valueIn(t, s.get("/memory/"+k.String())); got != newest.Value {
			t.Fatalf("round %d: %q is read, %q was written last", round, got, newest.Value)
		}
	}
}
