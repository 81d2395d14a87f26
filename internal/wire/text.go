package wire

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText turns a JSON body into UTF-8, which it does not copy. A byte order mark gives the encoding, or
// else the zero bytes among the first four. ok is false if the bytes are no text in that encoding.
func decodeText(body []byte) (text []byte, ok bool) {
	switch {
	case bytes.HasPrefix(body, []byte{0, 0, 0xFE, 0xFF}):
		return decodeUTF32(body[4:], binary.BigEndian)
	case bytes.HasPrefix(body, []byte{0xFF, 0xFE, 0, 0}):
		return decodeUTF32(body[4:], binary.LittleEndian)
	case bytes.HasPrefix(body, []byte{0xFE, 0xFF}):
		return decodeUTF16(body[2:], binary.BigEndian)
	case bytes.HasPrefix(body, []byte{0xFF, 0xFE}):
		return decodeUTF16(body[2:], binary.LittleEndian)
	case bytes.HasPrefix(body, []byte{0xEF, 0xBB, 0xBF}):
		return body[3:], utf8.Valid(body[3:])
	}
	return decodeUnmarked(body)
}

func decodeUnmarked(body []byte) (text []byte, ok bool) {
	zero := func(i int) bool { return body[i] == 0 }
	switch n := len(body); {
	case n >= 4 && zero(0) && zero(1):
		return decodeUTF32(body, binary.BigEndian)
	case n >= 4 && zero(1) && zero(2) && zero(3):
		return decodeUTF32(body, binary.LittleEndian)
	case (n == 2 || n >= 4) && zero(0):
		return decodeUTF16(body, binary.BigEndian)
	case (n == 2 || n >= 4) && zero(1):
		return decodeUTF16(body, binary.LittleEndian)
	}
	return body, utf8.Valid(body)
}

func decodeUTF16(b []byte, order binary.ByteOrder) (text []byte, ok bool) {
	if len(b)%2 != 0 {
		return nil, false
	}
	text = make([]byte, 0, len(b))
	for i := 0; i < len(b); i += 2 {
		r := rune(order.Uint16(b[i:]))
		if utf16.IsSurrogate(r) {
			if i += 2; i == len(b) {
				return nil, false
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(b[i:]))); r == utf8.RuneError {
				return nil, false
			}
		}
		text = utf8.AppendRune(text, r)
	}
	return text, true
}

func decodeUTF32(b []byte, order binary.ByteOrder) (text []byte, ok bool) {
	if len(b)%4 != 0 {
		return nil, false
	}
	text = make([]byte, 0, len(b)/2)
	for ; len(b) > 0; b = b[4:] {
		r := rune(order.Uint32(b))
		if !utf8.ValidRune(r) {
			return nil, false
		}
		text = utf8.AppendRune(text, r)
	}
	return text, true
}
