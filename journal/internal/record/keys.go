package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// StateKey is the key of the state record.
var StateKey = []byte("m/state")

// RetentionKey is the key of the record that says what was removed from the history.
var RetentionKey = []byte("m/retention")

// SendingKey is the key of the record of the last request's time.
var SendingKey = []byte("m/sending")

// SeenKey is the key of the record of what upstream's engine has seen.
var SeenKey = []byte("u/")

// EncodeSeen returns the record of what upstream's engine has seen, in the engine's own form.
func EncodeSeen(seen []byte) []byte { return Seal(SeenKey, bytes.Clone(seen)) }

// The key prefixes of each kind of record.
const (
	PendingPrefix = "p/"
	LeftPrefix    = "a/"
	SettledPrefix = "s/"
	NewestPrefix  = "t/"
	HeaderPrefix  = "h/"
	RowPrefix     = "l/"
	DeadPrefix    = "d/"
	ReceiptPrefix = "r/"
	VersionPrefix = "v/"
	LossPrefix    = "x/"
)

// EntryKey returns the key of one kind of record of an entry.
func EntryKey(prefix string, id ID) []byte {
	return appendEntryKey(make([]byte, 0, len(prefix)+len(id.Namespace)+1+len(id.Key)+versionSuffix), prefix, id)
}

func appendEntryKey(dst []byte, prefix string, id ID) []byte {
	dst = append(append(dst, prefix...), id.Namespace...)
	return append(append(dst, '/'), id.Key...)
}

// RowKey returns the key of one row of a namespace's listing.
func RowKey(namespace, key string) []byte {
	return EntryKey(RowPrefix, ID{Namespace: namespace, Key: key})
}

// versionSuffix is the length of the part of a version's key that follows the entry's key.
const versionSuffix = 1 + 8

// AppendPendingKey appends the key of one pending write to dst.
func AppendPendingKey(dst []byte, id ID, seq uint64) []byte {
	return appendSuffix(appendEntryKey(dst, PendingPrefix, id), seq)
}

// VersionKey returns the key of one version of an entry.
func VersionKey(id ID, seq uint64) []byte {
	return appendSuffix(EntryKey(VersionPrefix, id), seq)
}

// VersionsOf returns the key prefix of an entry's versions.
func VersionsOf(id ID) []byte { return append(EntryKey(VersionPrefix, id), '/') }

// AppendVersionKey appends the result of VersionKey to dst.
func AppendVersionKey(dst []byte, id ID, seq uint64) []byte {
	return appendSuffix(appendEntryKey(dst, VersionPrefix, id), seq)
}

// VersionKeySize returns the length of a version's key.
func VersionKeySize(id ID) int {
	return len(VersionPrefix) + len(id.Namespace) + 1 + len(id.Key) + versionSuffix
}

// PendingOfVersion returns the key of the pending write of a version, given the version's key or a bound
// of such keys.
func PendingOfVersion(key []byte) []byte {
	return append([]byte(PendingPrefix), key[len(VersionPrefix):]...)
}

func appendSuffix(dst []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, '/'), seq)
}

// PendingOf returns the key prefix of an entry's pending writes.
func PendingOf(id ID) []byte { return append(EntryKey(PendingPrefix, id), '/') }

// Within returns the key prefix of a namespace's records of one kind.
func Within(prefix, namespace string) []byte {
	return append([]byte(prefix+namespace), '/')
}

// HeaderKey returns the key of the header of a namespace's listing.
func HeaderKey(namespace string) []byte { return []byte(HeaderPrefix + namespace) }

// DeadKey returns the key of the dead letter with a sequence number.
func DeadKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(DeadPrefix), seq)
}

// ReceiptKey returns the key of a write's receipt in a generation.
func ReceiptKey(generation, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(GenerationKey(generation), seq)
}

// GenerationKey returns the key prefix of a generation's receipts.
func GenerationKey(generation uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(ReceiptPrefix), generation)
}

// RequestKey returns the key of a named request in a generation of receipts.
func RequestKey(generation uint64, name [16]byte) []byte {
	return append(GenerationKey(generation), name[:]...)
}

// ParseReceiptKey parses a key made by [ReceiptKey], or by [RequestKey]: then seq is 0. Errors: [ErrCorrupt].
func ParseReceiptKey(key []byte) (generation, seq uint64, err error) {
	switch rest := key[min(len(ReceiptPrefix), len(key)):]; len(rest) {
	case 8 + 8:
		return binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), nil
	case 8 + 16:
		return binary.BigEndian.Uint64(rest), 0, nil
	}
	return 0, 0, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
}

// ParsePendingKey parses the key of a pending write. Errors: [ErrCorrupt].
func ParsePendingKey(key []byte) (ID, uint64, error) { return ParseVersionKey(key) }

// ParseVersionKey parses the key of a version. Errors: [ErrCorrupt].
func ParseVersionKey(key []byte) (ID, uint64, error) {
	rest := key[len(VersionPrefix):]
	slash := bytes.IndexByte(rest, '/')
	if slash < 0 || len(rest) < slash+1+1+8 || rest[len(rest)-9] != '/' {
		return ID{}, 0, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
	}
	id := ID{Namespace: string(rest[:slash]), Key: string(rest[slash+1 : len(rest)-9])}
	return id, binary.BigEndian.Uint64(rest[len(rest)-8:]), nil
}

// ParseEntryKey parses a key made by [EntryKey]. Errors: [ErrCorrupt].
func ParseEntryKey(prefix string, key []byte) (ID, error) {
	namespace, name, ok := bytes.Cut(key[len(prefix):], []byte("/"))
	if !ok {
		return ID{}, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
	}
	return ID{Namespace: string(namespace), Key: string(name)}, nil
}

// ParseDeadKey parses a key made by [DeadKey]. Errors: [ErrCorrupt].
func ParseDeadKey(key []byte) (uint64, error) {
	if len(key) != len(DeadPrefix)+8 {
		return 0, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(key[len(DeadPrefix):]), nil
}

// After returns the first key after all keys with a prefix.
func After(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	end[len(end)-1]++
	return end
}
