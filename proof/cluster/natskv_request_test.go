package cluster

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

func TestASwapIsReadBack(t *testing.T) {
	e := engineOf(t, "h1", []string{RunServer(t).URL()})
	for i, value := range []string{"", "plain", "a\x00b", "日本語 \U0001F600", strings.Repeat("\U0001F600", 100_000)} {
		p := putting("k."+strconv.Itoa(i), value, 1_700_000_000.000001, uint64(i+1), upstream.Version{})
		want := swapped(t, e, p)
		if want.Revision == 0 || want.CreatedAt != p.WrittenAt || want.WrittenAt != p.WrittenAt || want.Value != value {
			t.Errorf("a swap returns %+v for %+v", want, p)
		}
		got, err := e.Get(t.Context(), p.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("read back: %v %s", err, diff)
		}
	}
}

func TestAnEntryKeepsItsTimeOfCreationUntilItIsDeleted(t *testing.T) {
	e := engineOf(t, "h1", []string{RunServer(t).URL()})
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	second := swapped(t, e, putting("k", "2", 20, 2, first))
	if second.CreatedAt != 10 || second.WrittenAt != 20 {
		t.Errorf("an overwrite has the times %v and %v", second.CreatedAt, second.WrittenAt)
	}
	deletion := upstream.Proposal{ID: entry("k"), Op: journal.Delete, WrittenAt: 30, Writer: upstream.Writer{Host: "h1", Seq: 3}, Author: "Müller", Over: second}
	gone := swapped(t, e, deletion)
	got, err := e.Get(t.Context(), entry("k"))
	if diff := cmp.Diff(gone, got); err != nil || diff != "" || !got.Deleted || got.Writer.Seq != 3 || got.Author != "Müller" || got.WrittenAt != 30 {
		t.Errorf("a delete leaves %+v: %v %s", got, err, diff)
	}
	if again := swapped(t, e, putting("k", "3", 40, 4, gone)); again.CreatedAt != 40 {
		t.Errorf("after a delete, an entry is created at %v", again.CreatedAt)
	}
	versions, err := e.Revisions(t.Context(), entry("k"))
	if err != nil || len(versions) != 4 || versions[0].Value != "3" || !versions[1].Deleted || versions[3].Value != "1" {
		t.Errorf("the history is %+v, %v", versions, err)
	}
}

func TestRevisionsAreAsManyAsTheBucketKeeps(t *testing.T) {
	e := engineOf(t, "h1", []string{RunServer(t).URL()}, func(o *natskv.Options) { o.History = 3 })
	if versions, err := e.Revisions(t.Context(), entry("k")); len(versions) != 0 || err != nil {
		t.Errorf("the history of nothing is %v, %v", versions, err)
	}
	var over upstream.Version
	for i := range 5 {
		over = swapped(t, e, putting("k", strconv.Itoa(i), float64(i+1), 1, over))
	}
	versions, err := e.Revisions(t.Context(), entry("k"))
	var values []string
	for i := range versions {
		values = append(values, versions[i].Value)
	}
	if diff := cmp.Diff([]string{"4", "3", "2"}, values); err != nil || diff != "" {
		t.Errorf("history: %v %s", err, diff)
	}
}

// A purge removes the older versions of deleted entries alone. The tombstone stays, with its time and writer, for
// the hosts that compare their writes with it.
func TestPurgeLeavesTheTombstone(t *testing.T) {
	e := engineOf(t, "h1", []string{RunServer(t).URL()})
	deleted := func(key string) upstream.Version {
		over := swapped(t, e, putting(key, "1", 10, 1, upstream.Version{}))
		over = swapped(t, e, putting(key, "2", 20, 2, over))
		return swapped(t, e, upstream.Proposal{ID: entry(key), Op: journal.Delete, WrittenAt: 30, Writer: upstream.Writer{Host: "h1", Seq: 3}, Over: over})
	}
	gone := deleted("gone")
	deleted("other")
	stays := swapped(t, e, putting("stays", "2", 20, 5, swapped(t, e, putting("stays", "1", 10, 4, upstream.Version{}))))
	count := func(key string) int {
		versions, err := e.Revisions(t.Context(), entry(key))
		if err != nil {
			t.Fatal(err)
		}
		return len(versions)
	}
	for _, of := range []struct {
		key                string
		gone, other, stays int
	}{{"gone", 1, 3, 2}, {"", 1, 1, 2}, {"", 1, 1, 2}} {
		if err := e.Purge(t.Context(), journal.ID{Namespace: entry("k").Namespace, Key: of.key}); err != nil {
			t.Fatal(err)
		}
		if a, b, c := count("gone"), count("other"), count("stays"); a != of.gone || b != of.other || c != of.stays {
			t.Errorf("after a purge of %q, there are %d, %d and %d versions", of.key, a, b, c)
		}
	}
	now, err := e.Get(t.Context(), entry("gone"))
	if err != nil || !now.Deleted || now.WrittenAt != gone.WrittenAt || now.Writer != gone.Writer {
		t.Errorf("the tombstone is %+v, %v, and was %+v", now, err, gone)
	}
	if now, err := e.Get(t.Context(), entry("stays")); err != nil || now.Revision != stays.Revision {
		t.Errorf("another entry is %+v, %v", now, err)
	}
}

func TestAConflictNamesTheWinner(t *testing.T) {
	e := engineOf(t, "h1", []string{RunServer(t).URL()})
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	second := swapped(t, e, putting("k", "2", 20, 2, first))
	for _, over := range []upstream.Version{{}, first, {Revision: 99}} {
		_, err := e.Swap(t.Context(), putting("k", "3", 30, 3, over))
		var conflict *upstream.Conflict
		if !errors.As(err, &conflict) || conflict.Now == nil {
			t.Fatalf("a swap over revision %d: %v", over.Revision, err)
		}
		if diff := cmp.Diff(second, *conflict.Now); diff != "" {
			t.Errorf("the winner over revision %d: %s", over.Revision, diff)
		}
	}
	_, err := e.Swap(t.Context(), putting("other", "1", 10, 1, first))
	var conflict *upstream.Conflict
	if !errors.As(err, &conflict) || conflict.Now == nil || conflict.Now.Revision != 0 {
		t.Errorf("a swap over what is not there: %v", err)
	}
}

func TestAnotherProgramsEntryIsRead(t *testing.T) {
	local := RunServer(t)
	e := engineOf(t, "h1", []string{local.URL()})
	swapped(t, e, putting("own", "1", 10, 1, upstream.Version{}))
	js := admin(t, local.URL())
	before := time.Now()
	for _, subject := range []string{"$KV.memory.ns.a=b", "$KV.memory.ns.not/allowed", "$KV.memory.ns.too.deep", "$KV.memory.alone"} {
		if _, err := js.Publish(t.Context(), subject, []byte("日本\x00語")); err != nil {
			t.Fatal(err)
		}
	}
	v, err := e.Get(t.Context(), entry("a.b"))
	if err != nil || v.Value != "日本\x00語" || v.ListBytes != 2 || v.Writer.Seq != 0 || v.CreatedAt != v.WrittenAt || v.WrittenAt < float64(before.Unix()) {
		t.Errorf("it is %+v, %v", v, err)
	}
	rows, complete, err := e.List(t.Context(), "ns")
	if err != nil || !complete || len(rows) != 2 || rows[0].Key != "a.b" || rows[1].Key != "own" || rows[1].Origin.Seq != 1 {
		t.Errorf("the list is %+v, %v, %v", rows, complete, err)
	}
	m := nats.NewMsg("$KV.memory.ns.a=b")
	m.Header.Set("KV-Operation", "PURGE")
	m.Header.Set("Nats-Rollup", "sub")
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if v, err := e.Get(t.Context(), entry("a.b")); err != nil || !v.Deleted {
		t.Errorf("purged, it is %+v, %v", v, err)
	}
}

func TestAListShowsConfirmedWritesOfOtherHosts(t *testing.T) {
	url := []string{RunServer(t).URL()}
	a, b := engineOf(t, "a", url), engineOf(t, "b", url)
	for i := range 20 {
		key := strconv.Itoa(i)
		if err := wrote(t.Context(), a, key, "v"); err != nil {
			t.Fatal(err)
		}
		rows, complete, err := b.List(t.Context(), "ns")
		if err != nil || !complete || len(rows) != i+1 || rows[0].Key != key {
			t.Fatalf("after %d writes the list of another host is %+v, %v", i+1, rows, err)
		}
	}
}

func TestSixWritersCountTogether(t *testing.T) {
	url := []string{RunServer(t).URL()}
	const writers, times = 6, 50
	var work sync.WaitGroup
	for w := range writers {
		e := engineOf(t, "h"+strconv.Itoa(w), url)
		work.Go(func() {
			for range times {
				if err := increment(t.Context(), e, entry("n")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	v, err := engineOf(t, "reader", url).Get(t.Context(), entry("n"))
	if err != nil || v.Value != strconv.Itoa(writers*times) {
		t.Errorf("the count is %s, %v; want %d", v.Value, err, writers*times)
	}
}

// increment adds one to a number by compare and swap.
func increment(ctx context.Context, e *natskv.Engine, id journal.ID) error {
	over, err := e.Get(ctx, id)
	for {
		if err == nil {
			n, _ := strconv.Atoi(over.Value)
			value := strconv.Itoa(n + 1)
			_, err = e.Swap(ctx, upstream.Proposal{
				ID: id, Op: journal.Put, Value: value, ListBytes: len(value), WrittenAt: over.WrittenAt + 1, Over: over,
			})
		}
		var conflict *upstream.Conflict
		var unsent *upstream.Error
		switch {
		case errors.As(err, &conflict) && conflict.Now != nil:
			over, err = *conflict.Now, nil
		case errors.As(err, &conflict), errors.As(err, &unsent) && unsent.Verdict == upstream.Unsent && ctx.Err() == nil:
			over, err = e.Get(ctx, id)
		default:
			return err
		}
	}
}
