package memory

import (
	"context"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

const (
	// pendingImportsMost and pendingImportBytes bound the imported writes that are pending at a time. The rest
	// of the journal is the agents'.
	pendingImportsMost = 1000
	pendingImportBytes = 16 << 20
)

// pendingImports are the imported writes that may still be pending.
type pendingImports struct {
	receipts *journal.Receipts
	writes   []importedWrite // the oldest first
	bytes    int
}

type importedWrite struct {
	journal.Receipt
	bytes int
}

func (a *pendingImports) add(w journal.Write) {
	a.writes = append(a.writes, importedWrite{journal.Receipt{ID: w.ID, Seq: w.Seq}, len(w.Value)})
	a.bytes += len(w.Value)
}

// makeRoom waits until one more write of a size may be pending.
func (a *pendingImports) makeRoom(ctx context.Context, bytes int) error {
	for looked := false; len(a.writes) >= pendingImportsMost || len(a.writes) > 0 && a.bytes+bytes > pendingImportBytes; looked = true { // guard 3.33
		if looked && !a.receipts.Await(ctx, &a.writes[0].Receipt) {
			return ctx.Err()
		}
		a.forgetEnded()
	}
	return nil
}

// awaitFirst waits until one of the writes may have left the pending set, or at most for some
// time. It returns false when ctx ends first.
func (a *pendingImports) awaitFirst(ctx context.Context, most time.Duration) bool {
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if len(a.writes) == 0 {
		<-short.Done()
	} else {
		a.receipts.Await(short, &a.writes[0].Receipt)
	}
	a.forgetEnded()
	return ctx.Err() == nil
}

// forgetEnded drops the writes that are not pending any more.
func (a *pendingImports) forgetEnded() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	a.writes = slices.DeleteFunc(a.writes, func(w importedWrite) bool {
		gone := a.receipts.Await(ended, &w.Receipt)
		if gone {
			a.bytes -= w.bytes
		}
		return gone
	})
}
