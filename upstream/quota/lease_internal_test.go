package quota

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// memoryLedger is a ledger that is not durable.
type memoryLedger struct {
	records  int
	onRecord func() // called once; may be nil
}

func (l *memoryLedger) Spent() []Use      { return nil }
func (l *memoryLedger) Close([]Use) error { return nil }

func (l *memoryLedger) Record(...Use) error {
	l.records++
	if do := l.onRecord; do != nil {
		l.onRecord = nil
		do()
	}
	return nil
}

func quotasOn(l *memoryLedger, quota Limit) *Quotas {
	return New(Options{Of: func(string) Limit { return quota }, Ledger: l, Logger: slog.New(slog.DiscardHandler)})
}

// A request that the ledger covers does not wait for another namespace's record.
func TestACoveredRequestWaitsForNoRecord(t *testing.T) {
	l := &memoryLedger{}
	qs := quotasOn(l, Limit{Writes: 1000, Period: time.Hour})
	send := func(namespace string) {
		qs.Spend(namespace, Ordinary)
		qs.Cover(namespace)
		qs.Ended(namespace)
	}
	send("covered")
	send("covered") // one is left of this lease
	l.onRecord = func() {
		sent := make(chan struct{})
		go func() { defer close(sent); send("covered") }()
		select {
		case <-sent:
		case <-time.After(time.Minute):
			t.Error("it waits for the record")
		}
	}
	send("slow")
	if l.records != 3 {
		t.Errorf("%d records, want 3", l.records)
	}
}

// One record covers all namespaces that need one.
func TestOneRecordForManyNamespaces(t *testing.T) {
	l := &memoryLedger{}
	qs := quotasOn(l, Limit{Writes: 1000, Period: time.Hour})
	all := make([]string, 20)
	l.onRecord = func() {
		for i := range all { // they come during the record, and wait until it ends
			all[i] = fmt.Sprint(i)
			qs.Spend(all[i], Ordinary)
			qs.tell(all[i])
		}
	}
	qs.Spend("first", Ordinary)
	qs.Cover("first")
	for _, namespace := range all {
		qs.Cover(namespace)
	}
	if l.records != 2 {
		t.Errorf("%d records, want 2", l.records)
	}
}

const day = 24 * time.Hour

// wantLinger checks how long the status says that a write waits.
func wantLinger(t *testing.T, qs *Quotas, want time.Duration) {
	t.Helper()
	if got := qs.Reports()["n"].Linger; got != want {
		t.Errorf("a write waits for %v, want %v", got, want)
	}
}

// untilTomorrow is how long a window of a day still lasts.
func untilTomorrow() time.Duration { return time.Until(time.Now().Truncate(day).Add(day)) }

// The status says how long the next write would wait: for the next window once all is used, and as long as upstream has
// said after a 429.
func TestReportOfNothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		qs := quotasOn(&memoryLedger{}, Limit{Writes: 2, Period: day, MaxAge: time.Minute})
		qs.Spend("n", Ordinary)
		qs.Terms("n", time.Second, 5)
		qs.Throttled("n", time.Hour)
		wantLinger(t, qs, time.Hour)
		qs.Lift("n")
		qs.Spend("n", Ordinary)
		qs.Terms("n", time.Second, 0)
		wantLinger(t, qs, untilTomorrow())
	})
}

// The status of a namespace with very much to send says that it waits for the next window.
func TestReportOfMuchPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		qs := quotasOn(&memoryLedger{}, Limit{Writes: 1, Period: day, MaxAge: time.Minute})
		qs.Spend("n", Ordinary)
		qs.Terms("n", time.Second, 200_000)
		wantLinger(t, qs, untilTomorrow())
	})
}
