package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Class says what it means to lose a record.
type Class uint8

// The classes.
const (
	// Owed records are nowhere else. A start without one of them is refused; a repair and a recovery keep them.
	Owed Class = iota
	// Past records are nowhere else either, but no answer needs them: they may be lost.
	Past
	// Copied records may be lost: upstream can be asked again.
	Copied
	// Made records are kept, but each store has its own: a recovery makes them.
	Made
)

// Keyed says what follows the prefix in a record's key.
type Keyed uint8

// The forms of keys.
const (
	ByVersion   Keyed = iota // an entry and the number of one of its versions
	ByEntry                  // an entry
	ByNamespace              // a namespace
	ByNumber                 // numbers, or a hash: the key names no entry
	Single                   // nothing: there is one such record
)

// Kind is a kind of record.
type Kind struct {
	Prefix string // of its keys
	name   string // of one record; %d stands for its number, %s for its entry or namespace
	Class  Class
	Keyed  Keyed
	// check decodes a record's body. It returns the highest sequence number that the record names; 0 if it names none.
	check func(key, body []byte) (seq uint64, err error)
}

// Kinds are all kinds of records, in the order of their keys. A recovery, a repair and a purge treat a record by its
// kind.
var Kinds = []*Kind{
	{LeftPrefix, "what was sent of %s", Owed, ByEntry, numberless(DecodeLeft)},
	{DeadPrefix, "dead letter %d", Owed, ByNumber, checkDead},
	{HeaderPrefix, "listing of %s", Copied, ByNamespace, numberless(DecodeHeader)},
	{RowPrefix, "listing row of %s", Copied, ByEntry, numberless(func(body []byte) (Row, error) { return DecodeRow("", body) })},
	{string(RetentionKey), "what was removed from the history", Owed, Single, checkRetention},
	{string(SendingKey), "when something was last sent", Made, Single, numberless(DecodeSending)},
	{string(StateKey), "the state record", Made, Single, numberless(DecodeTotals)},
	{PendingPrefix, "pending write %d to %s", Owed, ByVersion, checkPending},
	{string(GenerationsKey), "the generations of receipts", Past, Single, numberless(DecodeGenerations)},
	{ReceiptPrefix, "receipt of write %d", Past, ByNumber, checkReceipt},
	{SettledPrefix, "settled copy of %s", Copied, ByEntry, checkSettled},
	{NewestPrefix, "newest known time of %s", Past, ByEntry, checkSettled},
	{string(SeenKey), "what upstream's engine has seen", Past, Single, numberless(func([]byte) (struct{}, error) { return struct{}{}, nil })},
	{VersionPrefix, "version %d of %s", Past, ByVersion, checkVersion},
	{LossPrefix, "the loss of version %d of %s", Past, ByVersion, numberless(DecodeLoss)},
}

// KindOf returns the kind of a record by its key; nil if there is none.
func KindOf(key []byte) *Kind {
	for _, k := range Kinds {
		if k.has(key) {
			return k
		}
	}
	return nil
}

func (k *Kind) has(key []byte) bool {
	if k.Keyed == Single {
		return string(key) == k.Prefix
	}
	return bytes.HasPrefix(key, []byte(k.Prefix))
}

// Bounds returns the range of the kind's keys: the lowest, and the first key after them. No key of another kind is in it.
func (k *Kind) Bounds() (from, to []byte) {
	from = []byte(k.Prefix)
	switch k.Keyed {
	case Single:
		return from, append([]byte(k.Prefix), 0)
	case ByNumber:
		from = binary.BigEndian.AppendUint64(from, 0)
	default:
	}
	return from, After([]byte(k.Prefix))
}

// Of returns the range of the kind's keys of an entry, or of a namespace if id has no key. ok is false if the keys of
// the kind name no entry.
func (k *Kind) Of(id ID) (from, to []byte, ok bool) {
	switch {
	case k.Keyed > ByEntry:
		return nil, nil, false
	case id.Key == "":
		from = Within(k.Prefix, id.Namespace)
	case k.Keyed == ByEntry:
		from = EntryKey(k.Prefix, id)
		return from, append(bytes.Clone(from), 0), true
	default:
		from = append(EntryKey(k.Prefix, id), '/')
	}
	return from, After(from), true
}

// Check decodes a record's body. It returns the highest sequence number that the record names; 0 if it names none.
// Errors: [ErrCorrupt].
func (k *Kind) Check(key, body []byte) (seq uint64, err error) { return k.check(key, body) }

// NameOf names a record as people do.
func NameOf(key []byte) string {
	k := KindOf(key)
	if k == nil {
		return fmt.Sprintf("record %q", key)
	}
	rest := key[len(k.Prefix):]
	switch k.Keyed {
	case ByVersion:
		if id, seq, err := ParseVersionKey(key); err == nil {
			return fmt.Sprintf(k.name, seq, id)
		}
	case ByEntry, ByNamespace:
		return fmt.Sprintf(k.name, rest)
	case ByNumber:
		if len(rest) == 8 || len(rest) == 2*8 {
			return fmt.Sprintf(k.name, binary.BigEndian.Uint64(rest[len(rest)-8:]))
		}
	case Single:
		return k.name
	}
	return fmt.Sprintf("record %q", key)
}

// numberless is the check of a kind whose records name no sequence number.
func numberless[T any](decode func(body []byte) (T, error)) func(key, body []byte) (uint64, error) {
	return func(_, body []byte) (uint64, error) {
		_, err := decode(body)
		return 0, err
	}
}

func checkPending(key, body []byte) (uint64, error) {
	_, v, err := ReadPending(key, body, 0)
	return v.Seq, err
}

func checkVersion(key, body []byte) (uint64, error) {
	_, seq, err := ParseVersionKey(key)
	if err == nil {
		_, err = DecodeVersion(body)
	}
	return seq, err
}

func checkDead(key, body []byte) (uint64, error) {
	seq, err := ParseDeadKey(key)
	if err == nil {
		_, err = DecodeDead(seq, body)
	}
	return seq, err
}

func checkReceipt(key, body []byte) (seq uint64, err error) {
	if _, seq, err = ParseReceiptKey(key); err != nil {
		return 0, err
	}
	if seq == 0 {
		_, seq, err = DecodeRequest(body)
		return seq, err
	}
	r, err := DecodeReceipt(seq, body)
	return max(seq, r.By), err
}

func checkSettled(_, body []byte) (uint64, error) {
	_, _, _, err := DecodeSettled(body)
	return 0, err
}

func checkRetention(_, body []byte) (uint64, error) {
	_, _, err := DecodeRetention(body)
	return 0, err
}
