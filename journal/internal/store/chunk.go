package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/botwired/botwired/journal/internal/record"
)

// LogBlock is the size of a log's blocks. No chunk crosses the end of a block, so a reader can start at
// any block.
const LogBlock = 32 << 10

// ChunkHeader is the minimum size of a chunk. No chunk begins where a block has fewer bytes left.
const ChunkHeader = 11 // checksum, length, kind, number of the log

const (
	numberAt     = 7 // where the log's number is in a chunk
	syncedHeader = ChunkHeader + 8
	// The kinds of chunks with the log's number in the header: a whole batch, or the first, a middle or
	// the last part of one. A synced chunk also has the offset up to which the log was synced.
	wholeChunk, lastChunk = 5, 8
	wholeSynced           = 9
)

// Chunk is a batch in a log, or part of one.
type Chunk struct {
	Payload     []byte
	Size        int    // including its header
	First, Last bool   // of its batch
	Checks      bool   // its checksum is right
	Synced      uint64 // the log was synced up to this offset when the chunk was written; 0 if unknown
}

// ParseChunk parses the chunk at the beginning of text, which is the rest of a block. ok is false if
// text does not begin like a chunk of the log with this number.
func ParseChunk(text []byte, number uint64) (c Chunk, ok bool) {
	if len(text) < ChunkHeader {
		return Chunk{}, false
	}
	kind, header := text[6], ChunkHeader
	if kind >= wholeSynced {
		kind, header = kind-wholeSynced+wholeChunk, syncedHeader
	}
	c.Size = header + int(binary.LittleEndian.Uint16(text[4:]))
	if kind < wholeChunk || kind > lastChunk || c.Size > len(text) || binary.LittleEndian.Uint32(text[numberAt:]) != uint32(number) {
		return Chunk{}, false
	}
	if header == syncedHeader {
		c.Synced = binary.LittleEndian.Uint64(text[ChunkHeader:])
	}
	c.Payload = text[header:c.Size]
	c.First, c.Last = kind <= wholeChunk+1, kind == wholeChunk || kind == lastChunk
	sum := crc32.Checksum(text[6:c.Size], record.Castagnoli)
	c.Checks = (sum>>15|sum<<17)+0xa282ead8 == binary.LittleEndian.Uint32(text)
	return c, true
}

// syncedBehind reports whether a log that can be read up to end has a later chunk which says that the
// log was synced beyond the first damage after end. text is the log from a block on, at the offset
// from. A power cut may tear a batch whose first chunks were synced.
func syncedBehind(text []byte, from, end int64, number uint64) bool {
	damaged, wanted := int64(math.MaxInt64), binary.LittleEndian.AppendUint32(nil, uint32(number))
	for at := int(end - from); at < len(text); {
		blockEnd := min((at/LogBlock+1)*LogBlock, len(text))
		if blockEnd-at < syncedHeader {
			at = blockEnd
			continue
		}
		c, ok := ParseChunk(text[at:blockEnd], number)
		switch {
		case !ok || !c.Checks:
			damaged = min(damaged, from+int64(at)) // guard 4.15
			// The next chunk may begin where the log's number follows.
			if next := bytes.Index(text[at+1+numberAt:blockEnd], wanted); next >= 0 {
				at += 1 + next
			} else {
				at = blockEnd
			}
		case c.Synced > uint64(damaged):
			return true
		default:
			at += c.Size
		}
	}
	return false
}
