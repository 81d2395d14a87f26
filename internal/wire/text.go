package wire

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// surrogateSize is the length of a lone surrogate in WTF-8: UTF-8 that encodes surrogates like any other code
// point. Text stays in WTF-8 until it is refused or echoed.
const surrogateSize = 3

func surrogateAt[S ~string | ~[]byte](s S, i int) (rune, bool) {
	if i+surrogateSize > len(s) || s[i] != 0xED || s[i+1]&0xE0 != 0xA0 || s[i+2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F), true
}

func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xED, 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
	}
	return utf8.AppendRune(dst, r)
}

// decodeText turns a JSON body into WTF-8. It does not copy UTF-8. A byte order mark gives the encoding, or
// else the zero bytes among the first four. Lone surrogates pass. ok is false if the bytes are no text in
// that encoding.
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
		return body[3:], isText(body[3:])
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
	return body, isText(body)
}

func isText(b []byte) bool {
	if utf8.Valid(b) {
		return true
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			if _, ok := surrogateAt(b, i); !ok {
				return false
			}
			size = surrogateSize
		}
		i += size
	}
	return true
}

func decodeUTF16(b []byte, order binary.ByteOrder) (text []byte, ok bool) {
	if len(b)%2 != 0 {
		return nil, false
	}
	text = make([]byte, 0, len(b))
	for i := 0; i < len(b); i += 2 {
		r := rune(order.Uint16(b[i:]))
		if utf16.IsSurrogate(r) && i+4 <= len(b) {
			if pair := utf16.DecodeRune(r, rune(order.Uint16(b[i+2:]))); pair != utf8.RuneError {
				r, i = pair, i+2
			}
		}
		text = appendRune(text, r)
	}
	return text, true
}

func decodeUTF32(b []byte, order binary.ByteOrder) (text []byte, ok bool) {
	if len(b)%4 != 0 {
		return nil, false
	}
	text = make([]byte, 0, len(b)/2)
	for ; len(b) > 0; b = b[4:] {
		r := order.Uint32(b)
		if r > utf8.MaxRune {
			return nil, false
		}
		text = appendRune(text, rune(r))
	}
	return text, true
}
