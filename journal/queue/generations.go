package queue

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

const (
	// ReceiptsKept bounds the number of receipts. Beyond it, the receipts of the writes that ended
	// first are removed.
	ReceiptsKept = 1_000_000
	// ReceiptsFor is the minimum time for which a receipt is kept, while there are at most
	// ReceiptsKept.
	ReceiptsFor = 24 * time.Hour
)

const (
	// generationSpan is the length of a period: see generations.
	generationSpan = time.Hour
	// periodsKept is the number of periods whose receipts stay: one more than ReceiptsFor has, because
	// a period's last receipt may be written when the period ends.
	periodsKept = uint64(ReceiptsFor/generationSpan) + 1
	// generationShare is the divisor of ReceiptsKept that gives the maximum size of one generation.
	generationShare = 32
	// periodShift is the position of the period in a generation's number. The lower bits count the
	// generations of one period.
	periodShift = 32
)

// generations keeps the receipts in the order in which their writes ended. New receipts go into the
// last generation until it is full or its period ends. Old generations are removed whole, the oldest
// first, with one range of keys.
//
// A period ends when the process has run for generationSpan, even if the wall clock jumps. Only at the
// start, the journal uses the wall clock to find how much of the period has passed. So a jump makes
// receipts older by one period at most.
type generations struct {
	store  *store.Store
	logger *slog.Logger
	most   uint64 // the maximum number of receipts

	mu    sync.RWMutex        // guards the fields below; taken after the store's order
	all   []record.Generation // the oldest first; a receipt that is written again counts twice
	began time.Time           // when the last generation's period began
}

// load reads the record of the generations, and counts the receipts of the last one. If the record is
// missing, as after a recovery, load rebuilds it from the receipts. Nothing else uses the store meanwhile.
func (g *generations) load() error {
	var known record.Generations
	_, err := store.Get(g.store.DB(), record.GenerationsKey, func(body []byte) (err error) {
		known, err = record.DecodeGenerations(body)
		return err
	})
	if g.all = known.All; len(g.all) > 0 {
		last := g.last()
		last.Receipts, err = g.count(last.Number)
	} else if err == nil {
		err = g.discover()
	}
	g.began = time.Now()
	if len(known.All) > 0 {
		elapsed := min(max(0, store.UnixNow()-known.BeganAt), generationSpan.Seconds()) // guard 19.1
		g.began = g.began.Add(-time.Duration(elapsed * float64(time.Second)))
	}
	return err
}

// discover rebuilds the list of generations from the receipts in the store.
func (g *generations) discover() error {
	return store.Each(g.store.DB(), record.GenerationKey(0), record.After([]byte(record.ReceiptPrefix)), func(key, _ []byte) error {
		number, _, err := record.ParseReceiptKey(key)
		if err != nil {
			return err
		}
		g.begin(number)
		g.last().Receipts++
		return nil
	})
}

func (g *generations) count(number uint64) (receipts uint64, err error) {
	err = store.Each(g.store.DB(), record.GenerationKey(number), record.GenerationKey(number+1),
		func(_, _ []byte) error { receipts++; return nil })
	return receipts, err
}

// begin starts the generation with this number, unless it has started. It drops the last generation if
// it is empty. The caller holds mu.
func (g *generations) begin(number uint64) {
	n := len(g.all)
	if n > 0 && g.all[n-1].Number >= number {
		return
	}
	if n > 0 && g.all[n-1].Receipts == 0 {
		g.all = g.all[:n-1]
	}
	g.all = append(g.all, record.Generation{Number: number})
}

// last returns the generation that receives new receipts. There must be one. The caller holds mu.
func (g *generations) last() *record.Generation { return &g.all[len(g.all)-1] }

func (g *generations) kept() (n uint64) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.sum()
}

// sum returns the number of receipts. The caller holds mu.
func (g *generations) sum() (n uint64) {
	for _, one := range g.all {
		n += one.Receipts
	}
	return n
}

func (g *generations) add(tx *store.Tx, r *record.Receipt) {
	key := record.ReceiptKey(g.place(tx), r.Seq)
	tx.Set(key, record.EncodeReceipt(key, r))
}

// name adds a request that has made the write with a number; 0 if it was refused and has made none.
func (g *generations) name(tx *store.Tx, r *record.Request, seq uint64) {
	key := record.RequestKey(g.place(tx), r.Name)
	tx.Set(key, record.EncodeRequest(key, r, seq))
}

// place returns the generation for the next receipt.
func (g *generations) place(tx *store.Tx) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(g.all) == 0:
		g.began = time.Now()
		g.begin(0)
		g.write(tx)
	case g.last().Receipts >= max(1, g.most/generationShare):
		g.begin(g.last().Number + 1)
		g.write(tx)
	}
	last := g.last()
	last.Receipts++
	return last.Number
}

// write adds the record of the generations to a batch. The caller holds mu.
func (g *generations) write(tx *store.Tx) {
	began := store.UnixNow() - time.Since(g.began).Seconds()
	tx.Set(record.GenerationsKey, record.EncodeGenerations(&record.Generations{BeganAt: began, All: g.all}))
}

// find reads the receipt of a write.
func (g *generations) find(seq uint64) (r Receipt, ok bool, err error) {
	ok, err = g.get(func(number uint64) []byte { return record.ReceiptKey(number, seq) }, func(body []byte) (err error) {
		r, err = record.DecodeReceipt(seq, body)
		return err
	})
	return r, ok, err
}

// named reads a named request, and its number: see name.
func (g *generations) named(name [16]byte) (r record.Request, seq uint64, err error) {
	_, err = g.get(func(number uint64) []byte { return record.RequestKey(number, name) }, func(body []byte) (err error) {
		r, seq, err = record.DecodeRequest(body)
		return err
	})
	return r, seq, err
}

// get reads a record of the newest generation that has it. A damaged one counts as missing.
func (g *generations) get(keyIn func(number uint64) []byte, decode func(body []byte) error) (ok bool, err error) {
	g.mu.RLock()
	all := slices.Clone(g.all)
	g.mu.RUnlock()
	for _, one := range slices.Backward(all) {
		key := keyIn(one.Number)
		ok, err = store.Get(g.store.DB(), key, decode)
		if g.store.Damaged(err) {
			err = nil
		}
		if ok || err != nil {
			break
		}
	}
	return ok, err
}

// maintain ends the period when its time is over, and removes receipts that are too old or too many.
// Pebble gives back the tables that lie in the removed range. One goroutine calls it regularly.
func (g *generations) maintain() error {
	if !g.due() {
		return nil
	}
	return g.store.Update(store.ChangeFunc(g.turn))
}

func (g *generations) due() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	receipts := g.sum()
	return receipts > g.most || receipts > 0 && (time.Since(g.began) >= generationSpan || g.old(g.all[0]))
}

// turn begins a new period if the last one is over, and removes the generations that are too old or too
// many.
func (g *generations) turn(tx *store.Tx) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.began) >= generationSpan {
		g.begin((g.last().Number>>periodShift + 1) << periodShift)
		g.began = time.Now()
	}
	for len(g.all) > 1 && (g.sum() > g.most || g.old(g.all[0])) {
		g.all = g.all[1:]
	}
	g.keep(tx, g.all)
	return nil
}

// remove removes receipts, given their keys.
func (g *generations) remove(tx *store.Tx, keys [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		tx.Delete(key)
		number, _, err := record.ParseReceiptKey(key)
		i := slices.IndexFunc(g.all, func(one record.Generation) bool { return one.Number == number })
		if err == nil && i >= 0 && g.all[i].Receipts > 0 {
			g.all[i].Receipts--
		}
	}
	if len(keys) > 0 {
		g.write(tx)
	}
}

func (g *generations) giveUp() error {
	return g.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.all) == 0 {
			return nil
		}
		g.begin(g.last().Number + 1)
		g.keep(tx, g.all[len(g.all)-1:])
		return nil
	}))
}

// keep keeps the last generations, and removes the others. The caller holds mu.
func (g *generations) keep(tx *store.Tx, last []record.Generation) {
	g.all = last
	tx.DeleteSpan(record.GenerationKey(0), record.GenerationKey(last[0].Number))
	g.write(tx)
}

// old reports whether all receipts of a generation are older than ReceiptsFor. The caller
// holds mu.
func (g *generations) old(one record.Generation) bool {
	return one.Number>>periodShift+periodsKept <= g.last().Number>>periodShift // guard 13.10
}
