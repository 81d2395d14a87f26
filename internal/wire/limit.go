package wire

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// ParseList returns the limit of a LIST from a raw query. Like BotWire, it checks the limit before the
// namespace.
func ParseList(rawQuery, ns string) (limit int, refusal *Refusal) {
	if limit, refusal = ParseLimit(rawQuery); refusal == nil {
		refusal = CheckNamespace(ns)
	}
	return limit, refusal
}

// ParseLimit returns a list's limit from a raw query: 100 if there is none, the last one if there are
// several. Like BotWire's validator, it accepts white space around an integer, a plus sign, leading zeros,
// single underscores between digits and a fraction of zeros.
func ParseLimit(rawQuery string) (int, *Refusal) {
	input, given := lastParameter(rawQuery, "limit")
	if !given {
		return defaultLimit, nil
	}
	echo := appendString(nil, input)
	n, result := parseInteger(input)
	switch {
	case result == integerTooLong:
		const msg = "Unable to parse input string as an integer, exceeded maximum size"
		return 0, invalid("int_parsing_size", `"query","limit"`, msg, echo, "")
	case result == notInteger:
		const msg = "Input should be a valid integer, unable to parse string as an integer"
		return 0, invalid("int_parsing", `"query","limit"`, msg, echo, "")
	case n > maxLimit:
		const msg = "Input should be less than or equal to 1000"
		return 0, invalid("less_than_equal", `"query","limit"`, msg, echo, `{"le":1000}`)
	case n < 1:
		const msg = "Input should be greater than or equal to 1"
		return 0, invalid("greater_than_equal", `"query","limit"`, msg, echo, `{"ge":1}`)
	}
	return n, nil
}

// lastParameter returns the last value of a query parameter. Only & separates parameters. A broken escape
// stays as it is, and bytes that are not UTF-8 become U+FFFD.
func lastParameter(rawQuery, name string) (value string, given bool) {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		k, v, _ := strings.Cut(pair, "=")
		if pair != "" && unescapeQuery(k) == name {
			value, given = unescapeQuery(v), true
		}
	}
	return value, given
}

func unescapeQuery(s string) string {
	s = strings.ReplaceAll(s, "+", " ")
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+3 <= len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b, i = append(b, c...), i+2
				continue
			}
		}
		b = append(b, s[i])
	}
	return replaceInvalid(b)
}

type integerResult uint8

const (
	integer integerResult = iota
	notInteger
	integerTooLong
)

// parseInteger parses an integer and clamps it to ±(maxLimit+1): only its place among the limits matters.
func parseInteger(s string) (n int, result integerResult) {
	if n, result = parseDigits(s); result != notInteger {
		return n, result
	}
	cleaned, ok := cleanInteger(s)
	if !ok {
		return 0, notInteger
	}
	// The validator reports an integer that is too long even after cleaning as no integer at all.
	if n, result = parseDigits(cleaned); result == integerTooLong {
		result = notInteger
	}
	return n, result
}

// parseDigits parses -?(0|[1-9][0-9]*).
func parseDigits(s string) (n int, result integerResult) {
	digits, negative := strings.CutPrefix(s, "-")
	run := len(digits) - len(strings.TrimLeft(digits, "0123456789"))
	if run == 0 || digits[0] == '0' && run > 1 {
		return 0, notInteger
	}
	if len(s)-len(digits)+run > maxDigits {
		return 0, integerTooLong
	}
	if run < len(digits) {
		return 0, notInteger
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxLimit {
		n = maxLimit + 1
	}
	if negative {
		n = -n
	}
	return n, integer
}

// cleanInteger strips what the validator ignores: white space, a plus sign, leading zeros, a fraction of
// zeros and single underscores.
func cleanInteger(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if rest, plus := strings.CutPrefix(s, "+"); plus {
		if strings.HasPrefix(rest, "-") {
			return "", false
		}
		s = rest
	}
	sign := ""
	if rest, minus := strings.CutPrefix(s, "-"); minus {
		s, sign = rest, "-"
	}
	s, ok := trimZeros(s)
	if !ok {
		return "", false
	}
	if whole, fraction, _ := strings.Cut(s, "."); fraction != "" && strings.Trim(fraction, "0") == "" {
		s = whole
	}
	if !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "_") && !strings.Contains(s, "__") {
		s = strings.ReplaceAll(s, "_", "")
	}
	return sign + s, true
}

// trimZeros strips leading zeros and the underscores among them, but keeps a zero that stands alone or before
// a point. After zeros, a minus sign starts the number again: "0-5" is -5.
func trimZeros(s string) (string, bool) {
	if s == "" {
		return "", false
	}
	if s[0] != '0' {
		return s, '1' <= s[0] && s[0] <= '9'
	}
	i := len(s) - len(strings.TrimLeft(s, "0_"))
	switch {
	case i == len(s):
		return s[i-1:], true
	case s[i] == '.':
		return s[i-1:], true
	case s[i] == '-', '1' <= s[i] && s[i] <= '9':
		return s[i:], true
	}
	return "", false
}

// replaceInvalid turns bytes into text, with U+FFFD for each ill-formed subsequence. Like Python, it takes
// the longest prefix of a character, or else a single byte.
func replaceInvalid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = truncatedPrefix(b)
		}
		text.WriteRune(r)
		b = b[size:]
	}
	return text.String()
}

// truncatedPrefix returns how many bytes at the start of b could begin a valid character, at least 1.
func truncatedPrefix(b []byte) int {
	for n := min(len(b), utf8.UTFMax-1); n > 1; n-- {
		if beginsCharacter(b[:n]) {
			return n
		}
	}
	return 1
}

// beginsCharacter reports whether continuation bytes can complete a prefix of two bytes or more to a
// character. Only the second byte of a character depends on the first, so it tries 0x80 for the others.
func beginsCharacter(prefix []byte) bool {
	b := [utf8.UTFMax]byte{0x80, 0x80, 0x80, 0x80}
	n := copy(b[:], prefix)
	for size := n + 1; size <= len(b); size++ {
		if _, decoded := utf8.DecodeRune(b[:size]); decoded == size {
			return true
		}
	}
	return false
}
