package config

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxConcurrency bounds upstream.concurrency: each request under way holds a
// connection and a goroutine.
const maxConcurrency = 1024

// maxQuota bounds quota.writes_per_day to what an int holds on every platform.
const maxQuota = 1<<31 - 1

// maxDuration is 100 years: a few of them still fit 63 bits of nanoseconds.
const maxDuration = 36_500 * day

// maxSize bounds every number of bytes: sums and multiples of it still fit 63 bits.
const maxSize = 1 << 50

// lowest is the least that a duration or a size may be.
type lowest int64

const (
	zeroOrMore lowest = 0
	positive   lowest = 1
	oneMiB     lowest = 1 << 20             // of sizes where zero might be taken for "no limit"
	oneSecond  lowest = lowest(time.Second) // of durations
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

func duration(least lowest, at func(*Config) *time.Duration) codec {
	return codec{
		kind:     "duration",
		expected: "a duration" + least.String() + " such as 200ms, 1m30s or 2d",
		print:    func(c *Config) string { return FormatDuration(*at(c)) },
		copy:     copies(at),
		parse: func(c *Config, v node, _ places) error {
			d, err := ParseDuration(v.text)
			if !v.isScalarOf(isText, isNumber) || err != nil || d < time.Duration(least) {
				return unexpected()
			}
			if d > maxDuration {
				return expect("a duration of at most %s", FormatDuration(maxDuration))
			}
			*at(c) = d
			return nil
		},
	}
}

func durationOrNoLimit(at func(*Config) *time.Duration) codec {
	const orNoLimit = `, or "no limit"`
	limited := duration(zeroOrMore, at)
	return codec{
		kind:     limited.kind,
		expected: limited.expected + orNoLimit,
		print: func(c *Config) string {
			if *at(c) == NoLimit {
				return "no limit"
			}
			return limited.print(c)
		},
		copy: copies(at),
		parse: func(c *Config, v node, p places) error {
			if v.kind == isText && (v.text == "no limit" || v.text == "none") {
				*at(c) = NoLimit
				return nil
			}
			err := limited.parse(c, v, p)
			var fault *problem
			if errors.As(err, &fault) && fault.expected != "" {
				fault.expected += orNoLimit
			}
			return err
		},
	}
}

func size(least lowest, at func(*Config) *int64) codec {
	return sizeUpTo(least, func() (int64, string) { return maxSize, "" }, at)
}

// memory is the codec of a size in memory.
func memory(at func(*Config) *int64) codec {
	return sizeUpTo(positive, func() (int64, string) { return usableMemory(), ", the memory of this machine or container" }, at)
}

// sizeUpTo accepts what most says, which also says what that is.
func sizeUpTo(least lowest, most func() (int64, string), at func(*Config) *int64) codec {
	return codec{
		kind:     "size",
		expected: "a number of bytes" + least.String() + " such as 64MiB, 64MB or 1048576",
		print:    func(c *Config) string { return FormatSize(*at(c)) },
		copy:     copies(at),
		parse: func(c *Config, v node, _ places) error {
			n, err := ParseSize(v.text)
			if !v.isScalarOf(isText, isNumber) || err != nil || n < int64(least) {
				return unexpected()
			}
			if limit, what := most(); n > limit {
				return expect("at most %s%s", FormatSize(limit), what)
			}
			*at(c) = n
			return nil
		},
	}
}

func truth(at func(*Config) *bool) codec {
	return codec{
		kind:     "boolean",
		expected: "true or false",
		print:    func(c *Config) string { return strconv.FormatBool(*at(c)) },
		copy:     copies(at),
		parse: func(c *Config, v node, _ places) error {
			if !v.isScalarOf(isText, isBool) || v.text != "true" && v.text != "false" {
				return unexpected()
			}
			*at(c) = v.text == "true"
			return nil
		},
	}
}

func count(least, most int, at func(*Config) *int) codec {
	return codec{
		kind:     "number",
		expected: "a whole number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most),
		print:    func(c *Config) string { return strconv.Itoa(*at(c)) },
		copy:     copies(at),
		parse: func(c *Config, v node, _ places) error {
			n, err := strconv.Atoi(v.text)
			if !v.isScalarOf(isText, isNumber) || err != nil || n < least || n > most {
				return unexpected()
			}
			*at(c) = n
			return nil
		},
	}
}

// oneOf accepts the words. It keeps the word usual as "", the field's zero value.
func oneOf(usual string, words []string, at func(*Config) *string) codec {
	last := len(words) - 1
	return codec{
		kind:     "word",
		expected: strings.Join(words[:last], ", ") + " or " + words[last],
		print: func(c *Config) string {
			if *at(c) == "" {
				return usual
			}
			return *at(c)
		},
		copy: copies(at),
		parse: func(c *Config, v node, _ places) error {
			if v.kind != isText || !slices.Contains(words, v.text) {
				return unexpected()
			}
			*at(c) = v.text
			if v.text == usual {
				*at(c) = ""
			}
			return nil
		},
	}
}

// element is one text of a list.
type element struct {
	name     string // completes "a list of …"
	example  string
	expected string
	parse    func(text string) (string, bool) // returns the element in its one spelling
}

func list(of element, at func(*Config) *[]string) codec {
	return codec{
		kind:     "json",
		expected: "a list of " + of.name + ` (JSON in a flag or the environment: ["` + of.example + `"])`,
		print:    func(c *Config) string { return marshal(*at(c)) },
		copy:     copies(at),
		parse: func(c *Config, v node, _ places) error {
			v, err := v.structured()
			if err != nil || v.kind != isList {
				return unexpected()
			}
			out := make([]string, 0, len(v.items))
			for _, item := range v.items {
				s, ok := of.parse(item.text)
				if item.kind != isText || !ok {
					return &problem{value: &item, line: item.line, expected: of.expected}
				}
				out = append(out, s)
			}
			*at(c) = out
			return nil
		},
	}
}

func (n node) isScalarOf(kinds ...nodeKind) bool { return slices.Contains(kinds, n.kind) }

// marshal prints lists and maps as a person may write them in the environment.
func marshal(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only strings, and maps and slices of them, come here
	}
	return strings.TrimSpace(b.String())
}

// orNothing returns a codec that accepts an empty text, too.
func orNothing(at func(*Config) *string, c codec) codec {
	parse := c.parse
	c.parse = func(c *Config, v node, p places) error {
		if v.kind == isText && v.text == "" {
			*at(c) = ""
			return nil
		}
		return parse(c, v, p)
	}
	return c
}
