package journal

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Kept counts what a journal keeps of a namespace.
type Kept struct {
	Namespace   string
	Pending     int // pending writes
	Copies      int // settled copies, and rows of the listing
	Versions    int // of the history
	DeadLetters int // of all kinds
	Open        int // dead letters that need a decision
	Receipts    int // with those of named requests
	Unanswered  int // entries of which requests may have left something upstream, besides what is pending
}

// Kept describes, in order, the namespaces of which the journal keeps anything and for which accept returns true. It reads
// the whole store, and works before [Journal.Run].
func (j *Journal) Kept(accept func(namespace string) bool) (kept []Kept, err error) {
	if err := j.store.Acquire(); err != nil {
		return nil, err
	}
	defer j.store.Release()
	snapshot := j.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	found := make(map[string]*Kept)
	of := func(namespace string) *Kept {
		k, known := found[namespace]
		if !known {
			if accept(namespace) {
				k = &Kept{Namespace: namespace}
			}
			found[namespace] = k
		}
		return k
	}
	each := func(prefix string, name func(key, value []byte) (string, error), count func(k *Kept)) {
		if err != nil {
			return
		}
		err = store.Each(snapshot, []byte(prefix), record.After([]byte(prefix)), func(key, value []byte) error {
			namespace, err := name(key, value)
			if k := of(namespace); err == nil && namespace != "" && k != nil {
				count(k)
			}
			return err
		})
	}
	first := func(key, _ []byte) (string, error) {
		namespace, _, _ := bytes.Cut(key[len(record.PendingPrefix):], []byte{'/'})
		return string(namespace), nil
	}
	each(record.PendingPrefix, first, func(k *Kept) { k.Pending++ })
	each(record.SettledPrefix, first, func(k *Kept) { k.Copies++ })
	each(record.RowPrefix, first, func(k *Kept) { k.Copies++ })
	each(record.HeaderPrefix, first, func(*Kept) {})
	each(record.NewestPrefix, first, func(*Kept) {})
	each(record.VersionPrefix, first, func(k *Kept) { k.Versions++ })
	each(record.LeftPrefix, ofLeft, func(k *Kept) { k.Unanswered++ })
	each(record.ReceiptPrefix, ofReceipt, func(k *Kept) { k.Receipts++ })
	if err == nil {
		err = store.ScanDead(snapshot, 0, func(l *record.Dead) error {
			if k := of(l.Namespace); k != nil {
				k.DeadLetters++
				if l.Kind == Refused && l.SupersededBy == 0 {
					k.Open++
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, refusedStart(j.opts.Dir, store.Classify(err))
	}
	for _, namespace := range slices.Sorted(maps.Keys(found)) {
		if k := found[namespace]; k != nil {
			kept = append(kept, *k)
		}
	}
	return kept, nil
}

// ofLeft returns the namespace of an entry of which requests may have left something; empty if only that is known.
func ofLeft(key, value []byte) (namespace string, err error) {
	body, damage := record.Unseal(key, value)
	if damage != nil {
		return "", store.IgnoreDamage(damage)
	}
	left, err := record.DecodeLeft(body)
	if err != nil || len(left) == 0 {
		return "", store.IgnoreDamage(err)
	}
	id, err := record.ParseEntryKey(record.LeftPrefix, key)
	return id.Namespace, err
}

// ofReceipt returns the namespace of a receipt, or of a named request. It is empty for a damaged one, and for other
// records among them.
func ofReceipt(key, value []byte) (namespace string, err error) {
	if bytes.Equal(key, record.GenerationsKey) {
		return "", nil
	}
	_, seq, err := record.ParseReceiptKey(key)
	body, damage := record.Unseal(key, value)
	if err = errors.Join(err, damage); err != nil {
		return "", store.IgnoreDamage(err)
	}
	if seq == 0 {
		r, _, err := record.DecodeRequest(body)
		return r.Namespace, store.IgnoreDamage(err)
	}
	r, err := record.DecodeReceipt(seq, body)
	return r.Namespace, store.IgnoreDamage(err)
}
