package config

import (
	"errors"
	"maps"
	"net/textproto"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// reservedHeaders returns the headers that the connection, the HTTP library or the daemon sets. A
// configured value would break the request or leak between hops (RFC 9110 section 7.6.1).
func reservedHeaders() []string {
	return []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Host", "Content-Length", "Content-Type", "Content-Encoding", "Accept-Encoding", "Expect",
	}
}

func headers(at func(*Config) *map[string]string) codec {
	const expected = "a mapping of header names to values or {file: PATH} (JSON in a flag or the environment)"
	c := codecOf(at, "json", expected, printHeaders, func(v node, p places) (map[string]string, error) {
		v, err := v.structured(isMapping)
		if err != nil {
			return nil, err
		}
		out := make(map[string]string, len(v.pairs))
		var faults []error
		for _, each := range v.pairs {
			name, value, err := readHeader(each, p)
			if _, twice := out[name]; twice && err == nil {
				err = errors.New("each header once")
			}
			if err != nil {
				faults = append(faults, &Error{Item: quoteName(each.key), Source: Source{Line: each.line}, Expected: err.Error()})
				continue
			}
			out[name] = value
		}
		return out, errors.Join(faults...)
	})
	c.same = func(a, b *Config) bool { return maps.Equal(*at(a), *at(b)) } // printHeaders hides the values
	return c
}

// readHeader parses one header. Its errors may quote paths but no values.
func readHeader(each pair, p places) (name, value string, err error) {
	if !httpguts.ValidHeaderFieldName(each.key) {
		return "", "", expect("a header name (RFC 9110 section 5.1)")
	}
	name = textproto.CanonicalMIMEHeaderKey(each.key)
	if slices.Contains(reservedHeaders(), name) {
		return "", "", expect("a header that botwired does not set itself")
	}
	switch each.value.kind {
	case isText:
		value = each.value.text
	case isMapping:
		if value, err = headerFromFile(each.value, p); err != nil {
			return "", "", err
		}
	default:
		return "", "", expect("a string (in quotes if it looks like a number) or {file: PATH}")
	}
	if !isHeaderValue(value) {
		return "", "", expect("a value of visible characters on one line, not empty")
	}
	return name, value, nil
}

func headerFromFile(v node, p places) (string, error) {
	if len(v.pairs) != 1 || v.pairs[0].key != "file" {
		return "", expect("a string or {file: PATH}")
	}
	name, err := p.path(v.pairs[0].value)
	if err != nil {
		return "", expect("a string or {file: PATH}")
	}
	content, err := readFile(name)
	if err != nil {
		return "", expect("a readable file at %q, which gives: %v", name, err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// RelativeHeaderFile returns the first header whose value comes from a file with a relative path, and
// that path; "" if there is none. value is a valid value of the flag for upstream.headers, or empty.
func RelativeHeaderFile(value string) (header, file string) {
	v, _ := node{text: value, raw: true}.structured(isMapping) // it is valid
	for _, each := range v.pairs {
		for _, from := range each.value.pairs {
			if name := from.value.text; !filepath.IsAbs(name) && !strings.HasPrefix(name, "~/") {
				return each.key, name
			}
		}
	}
	return "", ""
}

// HasPlainHeader reports whether the value of a header, which may be a secret, stands in the text itself, and not
// in a file. value is as for [RelativeHeaderFile].
func HasPlainHeader(value string) bool {
	v, _ := node{text: value, raw: true}.structured(isMapping) // it is valid
	return slices.ContainsFunc(v.pairs, func(each pair) bool { return len(each.value.pairs) == 0 })
}

func printHeaders(all map[string]string) string {
	shown := make(map[string]string, len(all))
	for name := range all {
		shown[name] = redacted
	}
	return marshal(shown)
}

// quoteName returns a header's name for an error. It redacts a text that cannot be a name, which may be
// a misplaced value.
func quoteName(name string) string {
	if !httpguts.ValidHeaderFieldName(name) {
		return redacted
	}
	return shorten(name)
}

// isHeaderValue checks the rule for field values (RFC 9110 section 5.5). It rejects spaces at the ends,
// which a server would silently remove.
func isHeaderValue(s string) bool {
	return s != "" && strings.Trim(s, " \t") == s && httpguts.ValidHeaderFieldValue(s)
}
