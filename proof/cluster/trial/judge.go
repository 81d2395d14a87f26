package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/cluster/fleet"
)

const (
	// agreeWithin is how long the daemons may take to hear of the last writes of the others.
	agreeWithin = 30 * time.Second
	// askers is how many requests are under way at once while a daemon's books are read.
	askers = 4
)

// judge flushes all daemons, reads what everybody holds, and checks it.
func (t *trial) judge(ctx context.Context) (*check.History, []check.Fault, error) {
	if err := t.flush(ctx); err != nil {
		return nil, nil, err
	}
	h := &check.History{Kept: fleet.HistoryKept, Cuts: t.cuts}
	for _, b := range t.books {
		h.Writes = append(h.Writes, b.writes...)
		h.Reads = append(h.Reads, b.reads...)
	}
	if err := t.gather(ctx, h); err != nil {
		return nil, nil, err
	}
	for until := time.Now().Add(agreeWithin); ; {
		if err := errors.Join(t.bucket(ctx, h), t.final(ctx, h)); err != nil {
			return nil, nil, err
		}
		faults := check.Check(h)
		disagree := slices.ContainsFunc(faults, func(f check.Fault) bool { return f.Rule == check.RuleAgree })
		if !disagree || time.Now().After(until) {
			return h, faults, nil
		}
		if err := tasks.Sleep(ctx, time.Second); err != nil {
			return nil, nil, err
		}
	}
}

func (t *trial) flush(ctx context.Context) error {
	return t.each(func(host int, d *fleet.Daemon) error {
		if err := d.Flush(ctx, patience); err != nil {
			return fmt.Errorf("host %d does not get its writes into the bucket: %w", host, err)
		}
		return nil
	})
}

// each does the same to all daemons at once.
func (t *trial) each(do func(host int, d *fleet.Daemon) error) error {
	failed := make([]error, len(t.daemons))
	var work sync.WaitGroup
	for host, d := range t.daemons {
		work.Go(func() { failed[host] = do(host, d) })
	}
	work.Wait()
	return errors.Join(failed...)
}

// bucket reads all versions that the bucket keeps.
func (t *trial) bucket(ctx context.Context, h *check.History) (err error) {
	h.Bucket, err = fleet.ReadBucket(ctx, t.networks[0].URL(), bucket)
	delete(h.Bucket, check.Entry{Namespace: "start", Key: "start"})
	return err
}

// gather reads the receipts of all acknowledged writes, and what is lost.
func (t *trial) gather(ctx context.Context, h *check.History) error {
	h.Receipts, h.Lost = make([]map[uint64]check.Receipt, t.hosts), make([][]check.Lost, t.hosts)
	return t.each(func(host int, d *fleet.Daemon) (err error) {
		if h.Lost[host], err = d.Lost(ctx); err != nil {
			return err
		}
		h.Receipts[host], err = t.receipts(ctx, host, d)
		return err
	})
}

// receipts reads those of all acknowledged writes of a daemon.
func (t *trial) receipts(ctx context.Context, host int, d *fleet.Daemon) (map[uint64]check.Receipt, error) {
	all := make(map[uint64]check.Receipt)
	seqs := make(chan uint64, len(t.books[host].writes))
	for _, w := range t.books[host].writes {
		if w.Seq != 0 {
			seqs <- w.Seq
		}
	}
	close(seqs)
	var mu sync.Mutex
	return all, atOnce(func() error {
		for seq := range seqs {
			r, err := d.Receipt(ctx, seq)
			if err != nil {
				return err
			}
			mu.Lock()
			all[seq] = r
			mu.Unlock()
		}
		return nil
	})
}

// atOnce has several askers do the same.
func atOnce(do func() error) error {
	failed := make([]error, askers)
	var work sync.WaitGroup
	for i := range askers {
		work.Go(func() { failed[i] = do() })
	}
	work.Wait()
	return errors.Join(failed...)
}

// final reads all entries and listings at all daemons.
func (t *trial) final(ctx context.Context, h *check.History) error {
	entries := make(map[check.Entry]bool)
	for _, w := range h.Writes {
		entries[w.Entry] = true
	}
	h.Final, h.Listed = make([]map[check.Entry]check.State, t.hosts), make([]map[check.Entry]check.State, t.hosts)
	return t.each(func(host int, d *fleet.Daemon) (err error) {
		if h.Final[host], err = values(ctx, d, entries); err != nil {
			return err
		}
		h.Listed[host], err = listings(ctx, d)
		return err
	})
}

// values reads entries at a daemon.
func values(ctx context.Context, d *fleet.Daemon, entries map[check.Entry]bool) (map[check.Entry]check.State, error) {
	all, left := make(map[check.Entry]check.State), make(chan check.Entry, len(entries))
	for e := range entries {
		left <- e
	}
	close(left)
	var mu sync.Mutex
	return all, atOnce(func() error {
		for e := range left {
			s, found, err := d.Get(ctx, e)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", e.Namespace, e.Key, err)
			}
			if found {
				mu.Lock()
				all[e] = s
				mu.Unlock()
			}
		}
		return nil
	})
}

// listings lists all namespaces at a daemon.
func listings(ctx context.Context, d *fleet.Daemon) (map[check.Entry]check.State, error) {
	all := make(map[check.Entry]check.State)
	for _, namespace := range namespaces {
		keys, err := d.List(ctx, namespace, 1000)
		if err != nil {
			return nil, err
		}
		for key, at := range keys {
			all[check.Entry{Namespace: namespace, Key: key}] = check.State{UpdatedAt: at}
		}
	}
	return all, nil
}
