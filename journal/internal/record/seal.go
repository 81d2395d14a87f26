package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Castagnoli is the polynomial table for all checksums of the journal.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the length, in bytes, of the checksum that ends every value.
const sumSize = 4

// checksum returns the CRC-32C of a record's key and body.
func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Update(0, Castagnoli, key), Castagnoli, body)
}

// Seal appends to body the checksum of key and body.
func Seal(key, body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, checksum(key, body))
}

// Unseal returns the body of a sealed value, or [ErrCorrupt] if the value is damaged or was written
// under another key.
func Unseal(key, value []byte) ([]byte, error) {
	if len(value) < sumSize {
		return nil, fmt.Errorf("%w: record %q is %d bytes long", ErrCorrupt, key, len(value))
	}
	body := value[:len(value)-sumSize]
	if checksum(key, body) != Sum(value) { // guard 4.1
		return nil, fmt.Errorf("%w: checksum of record %q does not match", ErrCorrupt, key)
	}
	return body, nil
}

// Sum returns the checksum at the end of a sealed value.
func Sum(value []byte) uint32 {
	return binary.LittleEndian.Uint32(value[len(value)-sumSize:])
}
