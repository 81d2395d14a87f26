package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// stateKey is where the state record is.
var stateKey = []byte("m/state")

// The first bytes of the keys of each kind of record.
const (
	pendingPrefix = "p/"
	sentPrefix    = "a/"
	settledPrefix = "s/"
	headerPrefix  = "h/"
	rowPrefix     = "l/"
	deadPrefix    = "d/"
)

func entryKey(prefix string, id ID) []byte {
	return appendEntryKey(make([]byte, 0, len(prefix)+len(id.Namespace)+1+len(id.Key)+pendingSuffix), prefix, id)
}

func appendEntryKey(dst []byte, prefix string, id ID) []byte {
	dst = append(append(dst, prefix...), id.Namespace...)
	return append(append(dst, '/'), id.Key...)
}

// pendingSuffix is how much longer the key of a pending write is than its entry's.
const pendingSuffix = 1 + 8

// pendingKey is the key of one pending write.
func pendingKey(id ID, seq uint64) []byte {
	return appendSuffix(entryKey(pendingPrefix, id), seq)
}

func appendSuffix(dst []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, '/'), seq)
}

// pendingOf is what the keys of an entry's pending writes begin with.
func pendingOf(id ID) []byte { return append(entryKey(pendingPrefix, id), '/') }

// within is what the keys of a namespace's records of one kind begin with.
func within(prefix, namespace string) []byte {
	return append([]byte(prefix+namespace), '/')
}

func headerKey(namespace string) []byte { return []byte(headerPrefix + namespace) }

func deadKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(deadPrefix), seq)
}

func parsePendingKey(key []byte) (ID, uint64, error) {
	rest := key[len(pendingPrefix):]
	slash := bytes.IndexByte(rest, '/')
	if slash < 0 || len(rest) < slash+1+1+8 || rest[len(rest)-9] != '/' {
		return ID{}, 0, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
	}
	id := ID{Namespace: string(rest[:slash]), Key: string(rest[slash+1 : len(rest)-9])}
	return id, binary.BigEndian.Uint64(rest[len(rest)-8:]), nil
}

func parseEntryKey(prefix string, key []byte) (ID, error) {
	rest := key[len(prefix):]
	slash := bytes.IndexByte(rest, '/')
	if slash < 0 {
		return ID{}, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
	}
	return ID{Namespace: string(rest[:slash]), Key: string(rest[slash+1:])}, nil
}

func parseDeadKey(key []byte) (uint64, error) {
	if len(key) != len(deadPrefix)+8 {
		return 0, fmt.Errorf("%w: key %q does not parse", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(key[len(deadPrefix):]), nil
}

// after is the first key beyond all that begin with prefix.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	end[len(end)-1]++
	return end
}

func appendSeq(dst []byte, seq uint64) []byte { return binary.AppendUvarint(dst, seq) }
