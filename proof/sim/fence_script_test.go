package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal"
)

// turn is one step of a script of two hosts that write the same entries.
type turn struct {
	Action action // put, insist, wait, crash, restart, become, or squeeze: of the host's link
	Host   int
	Entry  int
	Fault  fault
	Wait   time.Duration
	Seed   int64
}

// faultsOfNow are the faults of which none has a request carried out later: what is carried out
// when its host has given it up, no fence can see.
var faultsOfNow = []fault{healthy, healthy, healthy, down, broken, captive, hanging, deaf, limiting, gateway}

func drawTurn(t *rapid.T) turn {
	return turn{
		Action: rapid.SampledFrom([]action{put, put, put, put, put, put, insist, insist, wait, wait, become, squeeze, squeeze, crash, restart}).Draw(t, "action"),
		Host:   rapid.IntRange(0, 1).Draw(t, "host"),
		Entry:  rapid.IntRange(0, 1).Draw(t, "entry"),
		Fault:  rapid.SampledFrom(faultsOfNow).Draw(t, "fault"),
		Wait:   rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, linger, time.Second, 3 * time.Second, 20 * time.Second, 5 * time.Minute}).Draw(t, "wait"),
		Seed:   rapid.Int64().Draw(t, "seed"),
	}
}

// contest is a realm of two hosts whose every step is on record.
type contest struct {
	*realm
	seqs  map[string]uint64                    // of the writes, by value
	by    map[string]deedDone                  // the writes, by value
	reads map[journal.ID][]porcupine.Operation // that upstream has answered
	// At the end: the values that have lost and who has beaten them, and what has become
	// of the writes.
	kept     map[journal.ID]map[string]string
	receipts map[string]journal.Receipt
}

// Two hosts write the same entries at any time, with clocks of their own, while they crash, are
// cut off, and upstream fails. There is an order of all writes and reads in which the later
// write wins, within the uncertainty of the clocks and but for what happens within a round trip;
// and each state that a host overwrites is kept (contract 17).
func TestTwoHostsOfTheSameEntries(t *testing.T) {
	var widest time.Duration
	races := 0
	rapid.Check(t, func(rt *rapid.T) {
		ahead := []time.Duration{
			rapid.SampledFrom(skews).Draw(rt, "skew"), rapid.SampledFrom(skews).Draw(rt, "other skew"),
		}
		turns := rapid.SliceOfN(rapid.Custom(drawTurn), 1, 60).Draw(rt, "turns")
		sealed := drawSealed(rt)
		var failed error
		var c *contest
		synctest.Test(t, func(*testing.T) {
			c = &contest{
				realm: &realm{sealed: sealed, wrote: make(map[journal.ID]deeds)}, seqs: make(map[string]uint64), by: make(map[string]deedDone),
				reads: make(map[journal.ID][]porcupine.Operation),
				kept:  make(map[journal.ID]map[string]string), receipts: make(map[string]journal.Receipt),
			}
			c.up = newServiceOf(c.settings())
			failed = c.play(ahead, turns)
			for _, h := range c.hosts {
				failed = errors.Join(failed, h.node.end())
			}
			c.up.close()
		})
		if failed == nil {
			failed = c.check() // outside of the bubble, where its patience is real
		}
		if failed != nil {
			rt.Fatalf("%v\nskews: %v, sealed: %t\nupstream was asked:\n  %s", failed, ahead, sealed, strings.Join(c.up.log, "\n  "))
		}
		for _, id := range shared {
			for n, w := range c.up.sights.writes[id] {
				if was, _ := raced(c.up.sights.writes[id], n); was {
					races++
					widest = max(widest, w.window())
				}
			}
		}
	})
	t.Logf("%d overwrote another host's state within their round trip, the widest of which was %s", races, widest)
}

func (c *contest) play(ahead []time.Duration, turns []turn) error {
	for _, skew := range ahead {
		if _, err := c.join(vfs.NewCrashableMem(), skew); err != nil {
			return err
		}
	}
	for i, id := range shared[:2] { // each host knows of each entry what upstream holds
		if err := c.write(i, id); err != nil {
			return err
		}
	}
	if err := c.settle(c.hosts...); err != nil {
		return err
	}
	for n := range c.hosts {
		for _, id := range shared[:2] {
			if err := c.insist(n, id); err != nil {
				return err
			}
		}
	}
	for i, t := range turns {
		if err := c.act(t); err != nil {
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	c.up.become(condition{}, "")
	for _, h := range c.hosts {
		h.cut(false)
	}
	if err := c.settle(c.hosts...); err != nil {
		return err
	}
	time.Sleep(lateWindow + apart)
	if err := c.settle(c.hosts...); err != nil { // of a sealed entry, a repair
		return err
	}
	for n := range c.hosts {
		for _, id := range shared[:2] {
			if _, err := c.hosts[n].insists(id); err != nil { // of a sealed entry, it finds an older write that has arrived last
				return err
			}
		}
	}
	if err := c.settle(c.hosts...); err != nil {
		return err
	}
	return errors.Join(c.agree(), c.unkept(), c.collect())
}

func (c *contest) act(t turn) error {
	h := c.hosts[t.Host]
	switch t.Action {
	case put:
		return c.write(t.Host, shared[t.Entry])
	case insist:
		return c.insist(t.Host, shared[t.Entry])
	case become:
		c.up.become(condition{fault: t.Fault}, "")
	case squeeze:
		h.cut(!h.with.link.cut.Load())
	case crash, restart:
		return h.again(t.Action == crash, t.Seed)
	default:
		time.Sleep(t.Wait)
	}
	return nil
}

func (c *contest) write(n int, id journal.ID) error {
	if err := c.put(n, id); err != nil {
		return err
	}
	d := c.wrote[id][len(c.wrote[id])-1]
	known, err := c.hosts[n].node.journal.Lookup(id)
	if known.Seq == 0 {
		return fmt.Errorf("%s is not pending (%w)", d.value, err)
	}
	c.seqs[d.value], c.by[d.value] = known.Seq, d
	return nil
}

// insist has a host read an entry, and takes the answer in if it is upstream's.
func (c *contest) insist(n int, id journal.ID) error {
	called := time.Now()
	r := c.hosts[n].node.do("GET", path(id), "", "Cache-Control", "no-cache")
	value, ok := valueIn(r)
	if !ok || !strings.Contains(r.Header().Get("Cache-Status"), "fwd") {
		return nil
	}
	c.reads[id] = append(c.reads[id], porcupine.Operation{
		ClientId: 1000, Input: attempt{host: strconv.Itoa(n), saw: &value}, Call: called.UnixNano(), Return: time.Now().UnixNano(),
	})
	return nil
}

// agree compares the hosts with upstream. A sealed entry is what was written last.
func (c *contest) agree() error {
	holds := c.up.snapshot()
	for _, id := range shared[:2] {
		if last := c.wrote[id][len(c.wrote[id])-1]; c.sealed && c.by[holds[id]].at.Before(last.at) {
			return fmt.Errorf("contract 23: upstream holds %q of %s, and the later write is %s", holds[id], id, last.value)
		}
	}
	for n, h := range c.hosts {
		for _, id := range shared[:2] {
			if value, err := h.insists(id); err != nil || value != holds[id] {
				return fmt.Errorf("contract 18: host %d says %q of %s, and upstream holds %q (%w)", n, value, id, holds[id], err)
			}
		}
	}
	return c.up.violation()
}

// collect keeps the receipts and what is lost for check.
func (c *contest) collect() error {
	for _, id := range shared[:2] {
		c.kept[id] = make(map[string]string)
		for _, h := range c.hosts {
			lost, err := h.losers(id)
			if err != nil {
				return err
			}
			for value, winner := range lost {
				c.kept[id][value] = winner
			}
		}
		for _, d := range c.wrote[id] {
			receipt, err := c.hosts[d.host].node.journal.Receipts.Read(context.Background(), c.seqs[d.value])
			if err != nil {
				return fmt.Errorf("the receipt of %s: %w", d.value, err)
			}
			c.receipts[d.value] = receipt
		}
	}
	return nil
}

// lost reports whether a write was given up for another host's.
func lost(r journal.Receipt) bool { return r.State == journal.ReceiptSuperseded && r.By == 0 }

func (c *contest) check() error {
	for _, id := range shared[:2] {
		writes := c.up.sights.writes[id]
		operations := c.reads[id]
		for n, w := range writes {
			was, err := raced(writes, n)
			if err != nil {
				return err
			}
			// A sealed write is repeated where an older one has arrived after it.
			repeated := c.sealed && slices.ContainsFunc(writes[:n], func(earlier overwriting) bool { return earlier.value == w.value })
			was = was || repeated
			o := c.operation(w.value, attempt{raced: was})
			if repeated {
				o.Return = max(o.Return, w.at.UnixNano())
			}
			operations = append(operations, o)
		}
		for _, d := range c.wrote[id] {
			receipt := c.receipts[d.value]
			switch winner, listed := c.kept[id][d.value]; {
			case lost(receipt) && !listed:
				return fmt.Errorf("contract 17: %s was given up for another host's, and is not listed", d.value)
			case lost(receipt):
				operations = append(operations, c.operation(d.value, attempt{lost: true, winner: winner}))
			case receipt.State == journal.ReceiptPending, receipt.State == journal.ReceiptDead:
				return fmt.Errorf("the receipt of %s is %+v", d.value, receipt)
			}
		}
		if c.sealed { // a sealed value has the time of its write, and not that of its arrival
			writes = slices.Clone(writes)
			for n := range writes {
				writes[n].at = c.by[writes[n].value].at
			}
		}
		if err := checkFenced(id, writes, operations); err != nil {
			return err
		}
	}
	return nil
}

// operation is an attempt of a write's, which happened between its acknowledgement and its
// receipt.
func (c *contest) operation(value string, a attempt) porcupine.Operation {
	d := c.by[value]
	a.host, a.value, a.at = strconv.Itoa(d.host), value, d.at
	ended := int64(c.receipts[value].SettledAt*1e6) * 1e3
	return porcupine.Operation{ClientId: int(c.seqs[value])*2 + d.host, Input: a, Call: d.at.UnixNano(), Return: ended + int64(time.Millisecond)}
}
