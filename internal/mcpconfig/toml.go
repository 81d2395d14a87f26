package mcpconfig

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlFormat is TOML. It edits whole lines: those of the server's table, from its header on.
// Which lines these are, the parser decides: the fewest whose change means what it should.
type tomlFormat struct{}

func (tomlFormat) parse(text []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := toml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("not valid TOML: %w", err)
	}
	return out, nil
}

func (f tomlFormat) has(text []byte, at []string) (bool, error) {
	root, err := f.parse(text)
	if err != nil {
		return false, err
	}
	server, err := lookup(root, at)
	return server != nil, err
}

func (f tomlFormat) set(text []byte, at []string, fields []field) ([]byte, error) {
	root, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	server, err := lookup(root, at)
	if err != nil {
		return nil, err
	}
	if server == nil {
		return f.append(text, root, at, fields)
	}
	for _, each := range fields {
		want := with(root, at, []field{each})
		if reflect.DeepEqual(root, want) {
			continue
		}
		if text, err = f.setField(text, at, each, want); err != nil {
			return nil, err
		}
		root = want
	}
	return text, nil
}

// append adds the server's table at the end.
func (f tomlFormat) append(text []byte, root map[string]any, at []string, fields []field) ([]byte, error) {
	newline := newlineOf(text)
	var b strings.Builder
	b.Write(text)
	if len(text) > 0 {
		if !bytes.HasSuffix(text, []byte("\n")) {
			b.WriteString(newline)
		}
		b.WriteString(newline)
	}
	b.WriteString("[" + at[0] + "." + tomlKey(at[1]) + "]" + newline)
	for _, each := range fields {
		b.WriteString(assignment(each) + newline)
	}
	return f.accept([]byte(b.String()), with(root, at, fields))
}

// setField replaces the lines of one field, or adds it below the header.
func (f tomlFormat) setField(text []byte, at []string, change field, want map[string]any) ([]byte, error) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	header := headerLine(lines, at)
	if header < 0 {
		return nil, ErrByHand
	}
	line := []byte(assignment(change) + newlineOf(text))
	if out, err := f.accept(replaced(lines, header+1, header+1, line), want); err == nil {
		return out, nil
	}
	name := regexp.MustCompile(`^\s*["']?` + regexp.QuoteMeta(change.name) + `["']?\s*=`)
	for from := header + 1; from < len(lines); from++ {
		if !name.Match(lines[from]) {
			continue
		}
		for to := from + 1; to <= len(lines); to++ {
			if out, err := f.accept(replaced(lines, from, to, line), want); err == nil {
				return out, nil
			}
		}
	}
	return nil, ErrByHand
}

func (f tomlFormat) remove(text []byte, at []string) ([]byte, error) {
	root, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	server, err := lookup(root, at)
	if err != nil || server == nil {
		return text, err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	header := headerLine(lines, at)
	if header < 0 {
		return nil, ErrByHand
	}
	from := header
	if from > 0 && len(bytes.TrimSpace(lines[from-1])) == 0 {
		from-- // the empty line that append has put before it
	}
	wants := []map[string]any{without(root, at)}
	if servers, ok := wants[0][at[0]].(map[string]any); ok && len(servers) == 0 {
		bare := copied(root)
		delete(bare, at[0]) // nothing else makes the table of servers
		wants = append(wants, bare)
	}
	for to := header + 1; to <= len(lines); to++ {
		for _, want := range wants {
			if out, err := f.accept(replaced(lines, from, to, nil), want); err == nil {
				return out, nil
			}
		}
	}
	return nil, ErrByHand
}

// accept returns a text that means what it should, or ErrByHand.
func (f tomlFormat) accept(text []byte, want map[string]any) ([]byte, error) {
	got, err := f.parse(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		return nil, ErrByHand
	}
	return text, nil
}

func replaced(lines [][]byte, from, to int, with []byte) []byte {
	head, tail := bytes.Join(lines[:from], nil), bytes.Join(lines[to:], nil)
	return append(append(head, with...), tail...)
}

// headerLine is the index of the line that begins the server's table, or -1.
func headerLine(lines [][]byte, at []string) int {
	part := func(name string) string { return `(?:"` + name + `"|'` + name + `'|` + name + `)` }
	header := regexp.MustCompile(`^\s*\[\s*` + part(regexp.QuoteMeta(at[0])) + `\s*\.\s*` + part(regexp.QuoteMeta(at[1])) + `\s*\]`)
	for i, line := range lines {
		if header.Match(line) {
			return i
		}
	}
	return -1
}

func newlineOf(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return tomlString(name)
}

func assignment(f field) string {
	list, ok := f.value.([]any)
	if !ok {
		return f.name + " = " + tomlString(f.value)
	}
	items := make([]string, len(list))
	for i, each := range list {
		items[i] = tomlString(each)
	}
	return f.name + " = [" + strings.Join(items, ", ") + "]"
}

// tomlString is a basic string. Its escapes are those of JSON, but that a NUL or another control
// character has the form \u0000.
func tomlString(value any) string {
	text := fmt.Sprint(value)
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
