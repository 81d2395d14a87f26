package mcpconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonFormat is JSON, with comments and trailing commas where the client takes them.
type jsonFormat struct {
	strict bool // the client refuses comments and trailing commas
}

// byteOrderMark begins a file of some editors on Windows.
const byteOrderMark = "\ufeff"

// jsonText is a document with its parts.
type jsonText struct {
	mark  []byte // a byte order mark, or empty
	text  []byte
	root  hujson.Value
	value map[string]any
}

func (f jsonFormat) parse(text []byte) (*jsonText, error) {
	d := &jsonText{text: text}
	if rest, ok := bytes.CutPrefix(text, []byte(byteOrderMark)); ok {
		d.mark, d.text = []byte(byteOrderMark), rest
	}
	if len(bytes.TrimSpace(d.text)) == 0 {
		d.text = []byte("{}\n")
	}
	var err error
	if d.root, err = hujson.Parse(d.text); err != nil {
		closed := append(bytes.Clone(d.text), '\n') // a comment may end with the file
		if root, again := hujson.Parse(closed); again == nil {
			d.text, d.root, err = closed, root, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", errors.New(strings.TrimPrefix(err.Error(), "hujson: ")))
	}
	if f.strict && !d.root.IsStandard() {
		return nil, errors.New("not valid JSON: it has comments or trailing commas, which the client does not take")
	}
	standard := d.root.Clone()
	standard.Standardize()
	decoder := json.NewDecoder(bytes.NewReader(standard.Pack()))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	var ok bool
	if d.value, ok = value.(map[string]any); !ok {
		return nil, fmt.Errorf("the file holds %s, and has to hold an object", kindOf(value))
	}
	return d, nil
}

func (f jsonFormat) has(text []byte, at []string) (bool, error) {
	d, err := f.parse(text)
	if err != nil {
		return false, err
	}
	server, err := lookup(d.value, at)
	return server != nil, err
}

func (f jsonFormat) set(text []byte, at []string, fields []field) ([]byte, error) {
	before, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	if _, err := lookup(before.value, at); err != nil {
		return nil, err
	}
	want := with(before.value, at, fields)
	if reflect.DeepEqual(before.value, want) {
		return text, nil
	}
	out := before
	for _, each := range fields {
		edited := out.put(append(append([]string{}, at...), each.name), each.value)
		if out, err = f.parse(append(out.mark, edited...)); err != nil {
			return nil, ErrByHand
		}
	}
	if !reflect.DeepEqual(out.value, want) {
		return nil, ErrByHand
	}
	return append(out.mark, out.text...), nil
}

func (f jsonFormat) remove(text []byte, at []string) ([]byte, error) {
	before, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	server, err := lookup(before.value, at)
	if err != nil || server == nil {
		return text, err
	}
	after, err := f.parse(append(before.mark, before.cut(at)...))
	if err != nil || !reflect.DeepEqual(after.value, without(before.value, at)) {
		return nil, ErrByHand
	}
	return append(after.mark, after.text...), nil
}

// member returns the last member of a name, which is the one that counts.
func member(in *hujson.Value, name string) *hujson.ObjectMember {
	object, ok := in.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := len(object.Members) - 1; i >= 0; i-- {
		if literal, ok := object.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == name {
			return &object.Members[i]
		}
	}
	return nil
}

// put returns the text with a value at a place.
func (d *jsonText) put(at []string, value any) []byte {
	in := &d.root
	for depth, name := range at {
		next := member(in, name)
		if next == nil {
			for i := len(at) - 1; i > depth; i-- {
				value = map[string]any{at[i]: value}
			}
			return d.insert(in, depth, name, value)
		}
		in = &next.Value
	}
	return splice(d.text, in.StartOffset, in.EndOffset, d.render(value, d.depthOf(in), d.isBroken(in)))
}

// insert returns the text with a new last member of an object. The object's closing brace stays
// where it is.
func (d *jsonText) insert(in *hujson.Value, depth int, name string, value any) []byte {
	object, _ := in.Value.(*hujson.Object)
	empty := len(object.Members) == 0
	end := in.EndOffset - 1 // of the brace
	at := len(bytes.TrimRight(d.text[:end], " \t\r\n"))
	text := quote(name) + ":" + d.render(value, "", false)
	if d.isBroken(in) || empty && (d.isBroken(&d.root) || len(d.value) == 0) {
		outer := strings.Repeat(d.indent(), depth)
		inner := outer + d.indent()
		text = d.newline() + inner + quote(name) + ": " + d.render(value, inner, true)
		if !bytes.ContainsRune(d.text[at:end], '\n') {
			text += d.newline() + outer
		}
	}
	out := splice(d.text, at, at, text)
	if empty {
		return out
	}
	if last := object.Members[len(object.Members)-1].Value; last.AfterExtra == nil {
		out = splice(out, last.EndOffset, last.EndOffset, ",")
	}
	return out
}

// cut returns the text without the member at a place, and without its comma.
func (d *jsonText) cut(at []string) []byte {
	in := &d.root
	for _, name := range at[:len(at)-1] {
		in = &member(in, name).Value
	}
	object, _ := in.Value.(*hujson.Object)
	out := d.text
	gone := member(in, at[len(at)-1])
	i := 0
	for &object.Members[i] != gone {
		i++
	}
	last := i == len(object.Members)-1
	if len(object.Members) == 1 && isBlank(object.AfterExtra) && isBlank(gone.Name.BeforeExtra) {
		return splice(out, in.StartOffset+1, in.EndOffset-1, "")
	}
	end := gone.Value.EndOffset
	if comma := end + len(gone.Value.AfterExtra); !last || gone.Value.AfterExtra != nil {
		out = splice(out, comma, comma+1, "")
	}
	start := len(bytes.TrimRight(out[:gone.Name.StartOffset], " \t\r\n"))
	if rest := bytes.TrimLeft(out[end:], " \t\r"); !bytes.HasPrefix(rest, []byte("\n")) && !bytes.HasPrefix(rest, []byte("}")) {
		start = gone.Name.StartOffset // more follows on the line
		end = len(out) - len(bytes.TrimLeft(out[end:], " \t"))
	}
	out = splice(out, start, end, "")
	if last && i > 0 && gone.Value.AfterExtra == nil {
		before := object.Members[i-1].Value
		comma := before.EndOffset + len(before.AfterExtra)
		out = splice(out, comma, comma+1, "")
	}
	return out
}

func isBlank(extra hujson.Extra) bool { return len(bytes.TrimSpace(extra)) == 0 }

func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

// isBroken reports whether a value stands on several lines.
func (d *jsonText) isBroken(v *hujson.Value) bool {
	return bytes.ContainsRune(d.text[v.StartOffset:v.EndOffset], '\n')
}

func (d *jsonText) newline() string {
	if bytes.Contains(d.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// indent is what the document indents its first member by.
func (d *jsonText) indent() string {
	if object, ok := d.root.Value.(*hujson.Object); ok && len(object.Members) > 0 {
		extra := object.Members[0].Name.BeforeExtra
		if at := bytes.LastIndexByte(extra, '\n'); at >= 0 {
			if indent := string(extra[at+1:]); indent != "" && strings.Trim(indent, " \t") == "" {
				return indent
			}
		}
	}
	return "  "
}

// depthOf is the indentation of the line on which a value begins.
func (d *jsonText) depthOf(v *hujson.Value) string {
	line := d.text[bytes.LastIndexByte(d.text[:v.StartOffset], '\n')+1 : v.StartOffset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// render writes a value, on several lines if broken. A list stays on one.
func (d *jsonText) render(value any, indent string, broken bool) string {
	object, ok := value.(map[string]any)
	if !ok {
		var items []string
		list, ok := value.([]any)
		if !ok {
			return quote(value)
		}
		for _, each := range list {
			items = append(items, quote(each))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	for name, each := range object { // there is one
		if !broken {
			return "{" + quote(name) + ":" + d.render(each, "", false) + "}"
		}
		inner := indent + d.indent()
		return "{" + d.newline() + inner + quote(name) + ": " + d.render(each, inner, true) + d.newline() + indent + "}"
	}
	return "{}"
}

// quote is a value in JSON, without the escapes that only HTML needs.
func quote(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "null" // no string fails
	}
	return strings.TrimSuffix(b.String(), "\n")
}
