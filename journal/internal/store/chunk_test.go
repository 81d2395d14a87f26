package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal/internal/record"
)

// chunk returns a chunk of log 7 with the offset up to which the log was synced. kind is the matching
// kind without that offset.
func chunk(kind byte, size int, synced uint64) []byte {
	c := make([]byte, size)
	binary.LittleEndian.PutUint16(c[4:], uint16(size-syncedHeader))
	c[6] = kind - wholeChunk + wholeSynced
	binary.LittleEndian.PutUint32(c[7:], 7)
	binary.LittleEndian.PutUint64(c[ChunkHeader:], synced)
	sum := crc32.Checksum(c[6:], record.Castagnoli)
	binary.LittleEndian.PutUint32(c, (sum>>15|sum<<17)+0xa282ead8)
	return c
}

// contract 4: an end torn by a power cut is not damage, even if a part of the torn batch was synced
// together with the batch before it.
func TestSyncedBehind(t *testing.T) {
	const firstChunk, size, end = wholeChunk + 1, 100, 100
	for name, test := range map[string]struct {
		torn   int    // the number of the torn chunk
		synced uint64 // the offset in the last chunk
		want   bool
	}{
		"a torn end":                        {2, 2 * size, false},
		"of which nothing was synced":       {1, size, false},
		"damage to what was synced":         {1, 2 * size, true},
		"damage to a later chunk":           {2, 3 * size, true},
		"damage, of which no chunk tells":   {1, 0, false},
		"nothing is damaged but the newest": {3, 3 * size, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log []byte
			for i, kind := range []byte{wholeChunk, firstChunk, lastChunk, wholeChunk} {
				c := chunk(kind, size, 0)
				if i == 3 {
					c = chunk(kind, size, test.synced)
				}
				if i == test.torn {
					c[len(c)-1] ^= 1
				}
				log = append(log, c...)
			}
			if got := syncedBehind(log, 0, end, 7); got != test.want {
				t.Errorf("it is %t, want %t", got, test.want)
			}
		})
	}
}

// No chunk begins in the last bytes of a block: they do not count as damaged.
func TestSyncedBehindTheEndOfABlock(t *testing.T) {
	const end = LogBlock - syncedHeader + 1
	log := make([]byte, LogBlock, 2*LogBlock)
	log = append(log, chunk(wholeChunk, 100, LogBlock)...)
	if syncedBehind(log, 0, end, 7) {
		t.Error("the rest of a block counts as damage")
	}
}

// syncedBehind finds the same as a search at each byte.
func TestSyncedBehindMissesNoChunk(t *testing.T) {
	pieces := [][]byte{
		make([]byte, 5), make([]byte, 40), make([]byte, LogBlock), {7, 0, 0, 0}, {7, 0, 0}, {9, 0, 0, 0, 0, 0, 0, 0, 8},
		chunk(wholeChunk, 100, 0), chunk(wholeChunk+1, 60, 90), chunk(lastChunk, 30, 1<<20), chunk(wholeChunk, 100, 500), chunk(wholeChunk, 20, 5)[:19],
	}
	outcomes := make(map[bool]int)
	rapid.Check(t, func(t *rapid.T) {
		var log []byte
		for _, piece := range rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 12).Draw(t, "log") {
			if n := LogBlock - len(log)%LogBlock; n < len(piece) { // no chunk crosses the end of a block
				log = append(log, make([]byte, n)...)
			}
			log = append(log, piece...)
		}
		from := int64(LogBlock * rapid.IntRange(0, 3).Draw(t, "from"))
		end := from + int64(rapid.IntRange(0, min(len(log), LogBlock)).Draw(t, "end"))
		got, want := syncedBehind(log, from, end, 7), syncedBehindAtEachByte(log, from, end, 7)
		if outcomes[want]++; got != want {
			t.Errorf("it is %t, want %t", got, want)
		}
	})
	if outcomes[true] == 0 || outcomes[false] == 0 {
		t.Errorf("outcomes: %v, want both", outcomes)
	}
}

func syncedBehindAtEachByte(text []byte, from, end int64, number uint64) bool {
	damaged := int64(math.MaxInt64)
	for at := int(end - from); at < len(text); {
		blockEnd := min((at/LogBlock+1)*LogBlock, len(text))
		if blockEnd-at < syncedHeader {
			at = blockEnd
			continue
		}
		c, ok := ParseChunk(text[at:blockEnd], number)
		if ok && c.Checks {
			if c.Synced > uint64(damaged) {
				return true
			}
			at += c.Size
			continue
		}
		damaged = min(damaged, from+int64(at))
		at++
	}
	return false
}
