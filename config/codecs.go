package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxConcurrency limits upstream.concurrency: each request in flight holds a connection and a
// goroutine.
const maxConcurrency = 1024

// maxQuota limits quota.writes_per_day to what an int holds on every platform.
const maxQuota = 1<<31 - 1

// maxDuration is 100 years: sums of a few still fit 63 bits of nanoseconds.
const maxDuration = 36_500 * day

// maxSize limits every number of bytes: its sums and multiples still fit 63 bits.
const maxSize = 1 << 50

// maxMemory limits cache.memory, in bytes: the cache allocates memory for its counters at the start.
const maxMemory = 64 << 30

type lowest int64

const (
	zeroOrMore lowest = 0
	positive   lowest = 1
	oneMiB     lowest = 1 << 20             // for sizes where zero could be read as "no limit"
	oneSecond  lowest = lowest(time.Second) // for durations
)

func (l lowest) String() string {
	switch l {
	case zeroOrMore:
		return ", zero or more,"
	case positive:
		return " above zero"
	case oneSecond:
		return ", at least " + FormatDuration(time.Duration(l)) + ","
	default:
		return ", at least " + FormatSize(int64(l)) + ","
	}
}

func codecOf[T any](at func(*Config) *T, kind, expected string, print func(T) string, parse func(v node, p places) (T, error)) codec {
	return codec{
		kind:     kind,
		expected: expected,
		print:    func(c *Config) string { return print(*at(c)) },
		same:     func(a, b *Config) bool { return print(*at(a)) == print(*at(b)) },
		copy:     func(to, from *Config) { *at(to) = *at(from) },
		parse: func(c *Config, v node, p places) error {
			value, err := parse(v, p)
			if err == nil {
				*at(c) = value
			}
			return err
		},
	}
}

func itself(s string) string { return s }

func duration(least lowest, at func(*Config) *time.Duration) codec {
	return durationOr("", least, at)
}

// durationOr also accepts "no limit", unless or is "". or is the end of the expectation's text.
func durationOr(or string, least lowest, at func(*Config) *time.Duration) codec {
	printed := func(d time.Duration) string {
		if d == NoLimit {
			return "no limit"
		}
		return FormatDuration(d)
	}
	return codecOf(at, "duration", "a duration"+least.String()+" such as 200ms, 1m30s or 2d"+or, printed, func(v node, _ places) (time.Duration, error) {
		if or != "" && v.kind == isText && (v.text == "no limit" || v.text == "none") {
			return NoLimit, nil
		}
		d, err := ParseDuration(v.text)
		if !v.isScalarOf(isText, isNumber) || err != nil || d < time.Duration(least) {
			return 0, errUnexpected
		}
		if d > maxDuration {
			return 0, expect("a duration of at most %s%s", FormatDuration(maxDuration), or)
		}
		return d, nil
	})
}

func size(least lowest, most int64, at func(*Config) *int64) codec {
	expected := "a number of bytes" + least.String() + " such as 64MiB, 64MB or 1048576"
	return codecOf(at, "size", expected, FormatSize, func(v node, _ places) (int64, error) {
		n, err := ParseSize(v.text)
		if !v.isScalarOf(isText, isNumber) || err != nil || n < int64(least) {
			return 0, errUnexpected
		}
		if n > most {
			return 0, expect("at most %s", FormatSize(most))
		}
		return n, nil
	})
}

func truth(at func(*Config) *bool) codec {
	return codecOf(at, "boolean", "true or false", strconv.FormatBool, func(v node, _ places) (bool, error) {
		if !v.isScalarOf(isText, isBool, isNumber) {
			return false, errUnexpected
		}
		switch strings.ToLower(v.text) {
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0":
			return false, nil
		}
		return false, errUnexpected
	})
}

func count(least, most int, at func(*Config) *int) codec {
	expected := "a whole number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)
	return codecOf(at, "number", expected, strconv.Itoa, func(v node, _ places) (int, error) {
		n, err := strconv.Atoi(v.text)
		if !v.isScalarOf(isText, isNumber) || err != nil || n < least || n > most {
			return 0, errUnexpected
		}
		return n, nil
	})
}

func text(at func(*Config) *string, kind, expected string, parse func(text string) (string, error)) codec {
	return codecOf(at, kind, expected, itself, func(v node, _ places) (string, error) {
		if v.kind != isText {
			return "", errUnexpected
		}
		return parse(v.text)
	})
}

func oneOf(words []string, at func(*Config) *string) codec {
	last := len(words) - 1
	return text(at, "word", strings.Join(words[:last], ", ")+" or "+words[last], func(word string) (string, error) {
		if !slices.Contains(words, word) {
			return "", errUnexpected
		}
		return word, nil
	})
}

type element struct {
	name     string // completes "a list of …"
	example  string
	expected string
	parse    func(text string) (string, bool) // returns the element in canonical form
}

func list(of element, at func(*Config) *[]string) codec {
	expected := "a list of " + of.name + ` (JSON in a flag or the environment: ["` + of.example + `"])`
	return codecOf(at, "json", expected, marshal, func(v node, _ places) ([]string, error) {
		v, err := v.structured(isList)
		if err != nil {
			return nil, err
		}
		out := make([]string, 0, len(v.items))
		for _, item := range v.items {
			s, ok := of.parse(item.text)
			if item.kind != isText || !ok {
				return nil, wrong("", item.line, item, of.expected)
			}
			out = append(out, s)
		}
		return out, nil
	})
}

func (n node) isScalarOf(kinds ...nodeKind) bool { return slices.Contains(kinds, n.kind) }

// marshal prints lists and maps in the form that the environment accepts.
func marshal[T any](v T) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // it only gets strings, and maps and slices of strings
	}
	return strings.TrimSpace(b.String())
}
