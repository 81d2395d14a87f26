// Package keyname has keys as people write them. BotWire takes keys of [a-zA-Z0-9_.-]{1,128}, and the Python package
// stores any other key under an escape: "_.", and after it each byte of the key's UTF-8, as itself if it is a letter, a
// digit, - or _, and else as . and two hexadecimal digits. So customer:8 is _.customer.3A8 in BotWire.
//
// [Parse] takes a key that BotWire would refuse for the escape of it, and [Format] shows such an escape as the key. Any
// other key is itself, and Parse(Format(key)) is key for every key that BotWire takes. The Python package and the
// dashboard have the same escape: clients/python/tests/names.json holds all three to it.
package keyname

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/botwired/botwired/internal/wire"
)

const mark = "_."

// Parse returns the key in BotWire of a key as a person writes it. It returns a key that has no escape as it is: BotWire
// then refuses it.
func Parse(text string) (string, error) {
	if wire.CheckKey(text) == nil || text == "" || !utf8.ValidString(text) {
		return text, nil
	}
	escaped := escape(text)
	if wire.CheckKey(escaped) == nil {
		return escaped, nil
	}
	digest := sha256.Sum256([]byte(text))
	return "", fmt.Errorf("the key is too long: BotWire takes 128 characters, and the key has %d in BotWire's alphabet; the Python package keeps it as _-%s",
		len(escaped), base64.RawURLEncoding.EncodeToString(digest[:]))
}

var escaped = regexp.MustCompile(`\.[0-9A-F]{2}`)

// Format returns a key of BotWire's as a person writes it.
func Format(key string) string {
	body, found := strings.CutPrefix(key, mark)
	if !found {
		return key
	}
	text := escaped.ReplaceAllStringFunc(body, func(code string) string {
		b, _ := hex.DecodeString(code[1:]) // the pattern has two digits
		return string(b)
	})
	if text == "" || !utf8.ValidString(text) || wire.CheckKey(text) == nil || escape(text) != key {
		return key
	}
	return text
}

// Prefixes returns the beginnings in BotWire of the keys whose [Format] begins with a text, in their order. No key begins
// with two of them, but some that begin with one may have another Format.
func Prefixes(text string) []string {
	of := escape(text)
	switch {
	case text == "" || !utf8.ValidString(text) || strings.HasPrefix(of, text):
		return []string{text}
	case wire.CheckKey(text) != nil:
		return []string{of}
	case text < of:
		return []string{text, of}
	}
	return []string{of, text}
}

// Begins reports whether a key of BotWire's begins with a text, as it is or as a person writes it.
func Begins(key, text string) bool {
	return strings.HasPrefix(key, text) || strings.HasPrefix(Format(key), text)
}

func escape(text string) string {
	var b strings.Builder
	b.WriteString(mark)
	for i := range len(text) {
		if c := text[i]; c != '.' && wire.CheckKey(text[i:i+1]) == nil {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, ".%02X", c)
		}
	}
	return b.String()
}
