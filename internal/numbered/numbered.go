// Package numbered makes values that name their key and write, so that a reader can tell old from new and
// whole from torn. An [Entry] says which of them a read may show.
package numbered

import (
	"strconv"
	"strings"
)

// Value returns the n-th value of a key. Incompressible text fills it up to size bytes, so that it takes as
// much room on the disk.
func Value(key string, n, size int) string {
	var b strings.Builder
	b.WriteString(key + ":" + strconv.Itoa(n) + ":")
	state := uint64(n)*0x9e3779b97f4a7c15 + uint64(len(key)) + 1
	for _, c := range []byte(key) {
		state = state*31 + uint64(c)
	}
	for b.Len() < size {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		b.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[state>>58])
	}
	return b.String()
}

// Number returns which of a key's values a text is, from 1 on. ok is false if it is none of them, or not
// whole.
func Number(key, text string) (n int, ok bool) {
	rest, ours := strings.CutPrefix(text, key+":")
	digits, _, numbered := strings.Cut(rest, ":")
	n, err := strconv.Atoi(digits)
	if !ours || !numbered || err != nil || n < 1 || text != Value(key, n, len(text)) {
		return 0, false
	}
	return n, true
}
