package entries

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// ErrOlder rejects an answer of upstream that is older than a state which this journal has known, and no longer
// has. See [Options.Named].
var ErrOlder = errors.New("upstream answers with an older state than this host has known")

// keepsNewest reports whether the newest state that was known of an entry stays known without its copy. There,
// upstream's word does not count: a version names its time, and nobody but its writer can have made it.
func (e *Entries) keepsNewest(namespace string) bool {
	return e.opts.Named != nil && e.opts.Named(namespace)
}

// setNewest adds the newest state that is known of an entry to a batch. version is the number of the version
// with the value; the version need not exist.
func (e *Entries) setNewest(tx *store.Tx, id ID, o *Observation, confirmedAt float64, version uint64) {
	if e.keepsNewest(id.Namespace) && (o.MadeAt != 0 || e.opts.Exact) {
		key := record.EntryKey(record.NewestPrefix, id)
		tx.Set(key, record.EncodeSettled(key, o, confirmedAt, version))
	}
}

// dropNewest makes any state that upstream shows of the entry count.
func (e *Entries) dropNewest(tx *store.Tx, id ID) {
	if e.keepsNewest(id.Namespace) {
		tx.Delete(record.EntryKey(record.NewestPrefix, id))
	}
}

func (e *Entries) dropNewests(tx *store.Tx, ids []ID) {
	for _, id := range ids {
		e.dropNewest(tx, id)
	}
}

// last reads an entry's settled copy, or else recalls the newest state that was known of it.
func (e *Entries) last(id ID) (past settledCopy, err error) {
	past, err = e.read(id)
	if err != nil || past.intact || !e.keepsNewest(id.Namespace) {
		return past, err
	}
	newest := settledCopy{removals: e.store.Removals.Load(), kept: past.kept, recalled: true}
	known, err := store.Get(e.store.DB(), record.EntryKey(record.NewestPrefix, id), func(body []byte) (err error) {
		newest.Observation, newest.confirmedAt, newest.version, err = record.DecodeSettled(body)
		return err
	})
	if err != nil || !known {
		return past, store.IgnoreDamage(err)
	}
	v, kept, err := store.ReadVersion(e.store.DB(), id, newest.version)
	if store.IgnoreDamage(err) != nil {
		return past, err
	}
	if newest.intact = kept; kept {
		newest.Value, newest.Author, newest.Host = v.Value, v.Author, v.Host
	}
	newest.gone = !kept
	return newest, nil
}

// findForgets finds the entries whose newest state goes: those that upstream's listing lacks, like their copies, and, if a
// person believes upstream, also those without a copy, or with a copy that is newer than what upstream lists. The caller
// holds the copies lock.
func (l *listed) findForgets(now map[string]Row) error {
	namespace := l.fill.namespace
	believes := l.fill.believe || l.header.Complete && !l.fill.distrust && l.header.Suspect.Since == 0
	if !believes || !l.keepsNewest(namespace) {
		return nil
	}
	prefix := record.Within(record.NewestPrefix, namespace)
	err := store.Each(l.store.DB(), prefix, record.After(prefix), func(key, _ []byte) error {
		id := ID{Namespace: namespace, Key: string(key[len(prefix):])}
		if id.Key == "" { // see renamed
			return nil
		}
		if !has(now, id.Key) {
			l.forgets = append(l.forgets, id)
			return nil
		}
		if !l.fill.believe {
			return nil
		}
		copied, err := l.readHead(id)
		if err == nil && (!copied.intact || l.held[id.Key]) { // guard 23.61
			l.forgets = append(l.forgets, id)
		}
		return err
	})
	return store.IgnoreDamage(err)
}
