package seal

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
)

const (
	// Limit is the length of the longest sealed value: BotWire stores no longer ones.
	Limit = 100_000
	// Prefix begins each sealed value.
	Prefix = "bw1."

	tagSize  = 16
	fixed    = 1 + 8 + 8 + 1 + 2 + 4 + 4 // the content's numbers
	mostHost = 64
	// mostAuthor is 64 characters of 4 bytes, as package wire bounds an author.
	mostAuthor = 256
	// mostValue bounds a value that is unpacked, in bytes: 100,000 characters of 4 bytes.
	mostValue = 400_000
	// mostContent is the longest content with a sealed form of Limit characters.
	mostContent = (Limit-len(Prefix))*3/4 - idSize - nonceSize - tagSize

	formatPlain      = 1
	formatCompressed = 2
)

// Value is a value with the write that made it.
type Value struct {
	WrittenAt int64  // microseconds since 1970
	Host      string // the writer's, 64 bytes at most
	Seq       uint64 // the number that the writer gave the write
	Author    string // 256 bytes at most
	Value     string
}

// [Namespace.Open] returns these errors and *[UnknownKey].
var (
	// ErrNotSealed says that no host of this memory wrote the value: it is not a sealed one.
	ErrNotSealed = errors.New("it is not sealed")
	// ErrForged says that no host of this memory wrote the value here: it was changed or cut, or moved from
	// another key or namespace.
	ErrForged = errors.New("it is forged: changed, cut or moved from another place")
	// ErrNewer says that a later version of botwired wrote the value, and that this one cannot open it.
	ErrNewer = errors.New("a later version of botwired has sealed it")
)

// UnknownKey says that a value seems to be sealed with a key that is not in the key file.
type UnknownKey struct{ ID string }

func (u *UnknownKey) Error() string {
	return "it is sealed with key " + u.ID + ", which the key file lacks: bring its line from the host that has it"
}

// MostBytes returns the most that a sealed value of so many bytes has, uncompressed, with the longest names
// of host and author.
func MostBytes(plain int) int {
	content := padded(fixed + mostHost + mostAuthor + plain)
	return len(Prefix) + encoding.EncodedLen(idSize+nonceSize+content+tagSize)
}

// Fits reports whether the sealed form of a value is never longer than [Limit].
func Fits(value string) bool {
	return MostBytes(len(value)) <= Limit || len(value) <= mostValue && MostBytes(len(compress(value))) <= Limit
}

// padded returns the length of a content with its zeros.
func padded(length int) int {
	exponent := bits.Len(uint(length)) - 1
	step := 1 << max(exponent-bits.Len(uint(exponent)), 0)
	return max(length, min((length+step-1)&^(step-1), mostContent))
}

// Seal seals a value for a key. The result differs each time, and [Namespace.Open] returns the value.
func (n *Namespace) Seal(key string, v Value) string {
	content := n.content(v)
	data := n.data(n.seal.id, key)
	sealed := make([]byte, 0, idSize+nonceSize+len(content)+tagSize)
	sealed = append(sealed, n.seal.id...)
	sealed = append(sealed, n.nonce(v, content, data)...)
	sealed = n.seal.aead.seal(sealed, sealed[idSize:], content, data)
	return Prefix + encoding.EncodeToString(sealed)
}

// nonce returns a nonce that no other content has, even if the random source fails or repeats itself.
func (n *Namespace) nonce(v Value, content, data []byte) []byte {
	var hedge [32 + 8]byte
	_, _ = io.ReadFull(n.random, hedge[:32])
	binary.BigEndian.PutUint64(hedge[32:], v.Seq)
	hash := sha256.Sum256(append(data, content...))
	return mac(n.seal.nonceKey, hedge[:], hash[:], []byte(v.Host))[:nonceSize] // guard 23.21
}

func (n *Namespace) data(id, key string) []byte {
	var data []byte
	for _, part := range []string{Prefix, id, n.namespace, key} { // guard 23.22
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(part))), part...)
	}
	return data
}

func (n *Namespace) content(v Value) []byte {
	host, author := v.Host[:min(len(v.Host), mostHost)], v.Author[:min(len(v.Author), mostAuthor)]
	format, held := byte(formatPlain), []byte(v.Value)
	if fixed+len(host)+len(author)+len(held) > mostContent {
		format, held = formatCompressed, compress(v.Value)
	}
	length := fixed + len(host) + len(author) + len(held)
	c := make([]byte, 0, padded(length))
	c = append(c, format)
	c = binary.BigEndian.AppendUint64(c, uint64(v.WrittenAt))
	c = binary.BigEndian.AppendUint64(c, v.Seq)
	c = append(append(c, byte(len(host))), host...)
	c = append(binary.BigEndian.AppendUint16(c, uint16(len(author))), author...)
	c = binary.BigEndian.AppendUint32(c, uint32(len(v.Value)))
	c = binary.BigEndian.AppendUint32(c, uint32(len(held)))
	c = append(c, held...)
	return c[:cap(c)]
}

// Open returns the value that [Namespace.Seal] sealed for the key, and the ID of the key that opens it. Any
// other text is an error.
func (n *Namespace) Open(key, sealed string) (v Value, keyID string, err error) {
	text, ok := strings.CutPrefix(sealed, Prefix)
	if !ok {
		return Value{}, "", ErrNotSealed
	}
	raw, err := encoding.DecodeString(text)
	// The decoder skips line breaks.
	if err != nil || strings.ContainsAny(text, "\r\n") || len(raw) < idSize+nonceSize+tagSize { // guard 23.20
		return Value{}, "", ErrForged
	}
	id, raw := string(raw[:idSize]), raw[idSize:]
	keyID = fmt.Sprintf("%x", id)
	with := n.open[id]
	if with == nil {
		return Value{}, "", &UnknownKey{ID: keyID}
	}
	content, err := with.aead.open(nil, raw[:nonceSize], raw[nonceSize:], n.data(id, key))
	if err != nil {
		return Value{}, "", ErrForged
	}
	if v, err = read(content); err != nil {
		return Value{}, "", err
	}
	return v, keyID, nil
}

// read parses an authentic content.
func read(c []byte) (v Value, err error) {
	rest, whole := bytes.NewBuffer(c), true
	take := func(n uint64) []byte {
		whole = whole && n <= uint64(rest.Len())
		return rest.Next(int(min(n, uint64(rest.Len()))))
	}
	number := func(size uint64) (n uint64) {
		for _, b := range take(size) {
			n = n<<8 | uint64(b)
		}
		return n
	}
	format := number(1)
	if format != formatPlain && format != formatCompressed {
		return Value{}, ErrNewer
	}
	v.WrittenAt, v.Seq = int64(number(8)), number(8)
	v.Host = string(take(number(1)))
	v.Author = string(take(number(2)))
	size := number(4)
	held := take(number(4))
	if format == formatCompressed {
		held = decompress(held, size)
	}
	if !whole || uint64(len(held)) != size {
		return Value{}, fmt.Errorf("%w, or a botwired with a fault", ErrNewer)
	}
	v.Value = string(held)
	return v, nil
}

func compress(value string) []byte {
	var packed bytes.Buffer
	w := must(flate.NewWriter(&packed, flate.BestCompression))
	_, _ = io.WriteString(w, value) // a buffer takes all
	_ = w.Close()
	return packed.Bytes()
}

// decompress returns a value of the size given, and anything else if there is no such.
func decompress(packed []byte, size uint64) []byte {
	if size > mostValue {
		return nil
	}
	value, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), int64(size)+1))
	if err != nil {
		return nil
	}
	return value
}
