package wire

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
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

// integer is what BotWire's validator takes as one: +2, 1_0 and 2.0 are integers too.
var integer = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*(\.0+)?$`)

// ParseLimit returns a list's limit from a raw query: 100 if there is none, the last one if there are
// several.
func ParseLimit(rawQuery string) (int, *Refusal) {
	input, given := lastParameter(rawQuery, "limit")
	if !given {
		return defaultLimit, nil
	}
	echo, trimmed := appendString(nil, input), strings.TrimSpace(input)
	if !integer.MatchString(trimmed) {
		const msg = "Input should be a valid integer, unable to parse string as an integer"
		return 0, invalid("int_parsing", `"query","limit"`, msg, echo, "")
	}
	whole, _, _ := strings.Cut(strings.ReplaceAll(trimmed, "_", ""), ".")
	n, _ := strconv.Atoi(whole) // a number too large for an int becomes the largest
	switch {
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
	return string([]rune(string(b)))
}
