package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/wire"
)

// argument describes an argument of a tool: a text, or a whole number with a default.
type argument struct {
	name, about string
	accepts     string // completes "expected …"
	required    bool
	pattern     *regexp.Regexp // for texts; nil accepts any
	most        int            // characters of a text, or the largest number
	least       int            // for numbers
	number      bool
	byDefault   int // for numbers
	moment      bool
	key         bool   // a text that BotWire would refuse is the Python package's escape of it
	json        bool   // a text, or any other JSON, whose text is meant
	only        string // the only text that is accepted, of an argument that the tool does not describe
}

// arguments are the texts and whole numbers of a call. A missing number has its default.
type arguments map[string]any

func (a arguments) text(name string) string { text, _ := a[name].(string); return text }
func (a arguments) number(name string) int  { n, _ := a[name].(int); return n }

// moment returns an argument that parse has checked to be a time, or the zero time if it is missing.
func (a arguments) moment(name string) time.Time {
	at, _ := time.Parse(time.RFC3339, a.text(name))
	return at
}

func schemaOf(of []argument) *jsonschema.Schema {
	schema := &jsonschema.Schema{
		Type: "object", Properties: make(map[string]*jsonschema.Schema, len(of)),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, a := range of {
		if a.only != "" {
			continue
		}
		property := &jsonschema.Schema{Type: "string", Description: a.about}
		switch {
		case a.number:
			property.Type = "integer"
			property.Minimum, property.Maximum = float(a.least), float(a.most)
			property.Default = fmt.Appendf(nil, "%d", a.byDefault)
		case a.moment:
			property.Format = "date-time"
		default:
			if a.most > 0 {
				property.MaxLength = &a.most
			}
			if a.pattern != nil {
				property.Pattern = a.pattern.String()
			}
		}
		schema.Properties[a.name] = property
		schema.PropertyOrder = append(schema.PropertyOrder, a.name)
		if a.required {
			schema.Required = append(schema.Required, a.name)
		}
	}
	return schema
}

func float(n int) *float64 { f := float64(n); return &f }

// parseArguments parses a call's arguments. Its errors say what is accepted, and repeat no value. It takes what
// models send where its meaning is plain: a number as a text, a value as JSON, all arguments as one text of JSON. It
// ignores an argument that the tool does not have, as some clients add their own. Null means that the argument is
// missing: some models fill in all arguments.
func parseArguments(of []argument, raw json.RawMessage) (arguments, error) {
	in := make(arguments)
	valid, text := isUnicode(raw), ""
	if json.Unmarshal(raw, &text) == nil && text != "" {
		raw = json.RawMessage(text)
	}
	if !valid || !isUnicode(raw) {
		return in, fmt.Errorf("the arguments are not valid Unicode: expected no half of a surrogate pair (\\ud800 to \\udfff) and no broken UTF-8")
	}
	sent := make(map[string]json.RawMessage)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &sent); err != nil {
			return in, fmt.Errorf("the arguments are not an object: expected %s", namesOf(of))
		}
	}
	given := make(map[string]json.RawMessage, len(sent))
	for name, value := range sent {
		given[plain(name)] = value
	}
	for _, a := range of {
		value, exact := sent[a.name]
		if !exact {
			value = given[plain(a.name)]
		}
		if isMissing(a, value) {
			if a.required {
				return in, fmt.Errorf("%s is missing: expected %s", a.name, a.accepts)
			}
			if a.number {
				in[a.name] = a.byDefault
			}
			continue
		}
		var err error
		if a.number {
			in[a.name], err = a.parseNumber(value)
		} else if in[a.name], err = a.parseText(value); err == nil && a.only != "" && in[a.name] != a.only {
			err = fmt.Errorf("%s is fixed to %q here: leave it out", a.name, a.only)
		}
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

// plain returns a name as models spell it in one way or another: ifVersion and if-version are if_version. If it
// were ignored, a write would have no condition.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// isMissing reports whether an argument has no value. An empty text is none where a number, a time or an optional
// namespace is expected, and is a wrong one where a version is: the write would lose its condition.
func isMissing(a argument, value json.RawMessage) bool {
	isEmpty := string(value) == `""` && (a.number || a.moment || !a.required && a.name == namespaceArgument.name)
	return len(value) == 0 || string(value) == "null" || isEmpty
}

func namesOf(of []argument) string {
	var names []string
	for _, a := range of {
		name := a.name
		if !a.required {
			name += " (optional)"
		}
		if a.only == "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func (a *argument) parseNumber(value json.RawMessage) (int, error) {
	var n float64
	var text string
	if json.Unmarshal(value, &text) == nil {
		value = json.RawMessage(strings.TrimSpace(text))
	}
	if err := json.Unmarshal(value, &n); err != nil || n != math.Trunc(n) || n < float64(a.least) || n > float64(a.most) {
		return 0, fmt.Errorf("%s is wrong: expected a whole number from %d to %d", a.name, a.least, a.most)
	}
	return int(n), nil
}

// parseText returns a text, or the JSON text of a number, of true or false, or of an argument that may be any JSON.
func (a *argument) parseText(value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		if !a.json && (value[0] == '{' || value[0] == '[') {
			return "", fmt.Errorf("%s is not a text: expected %s", a.name, a.accepts)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return "", fmt.Errorf("%s is not JSON: expected %s", a.name, a.accepts)
		}
		text = compact.String()
	}
	if a.most > 0 {
		if n := utf8.RuneCountInString(text); n > a.most {
			return "", fmt.Errorf("%s is too long: it has %d characters: expected %s", a.name, n, a.accepts)
		}
	}
	if a.pattern != nil && !a.pattern.MatchString(text) {
		return "", fmt.Errorf("%s is not accepted: expected %s", a.name, a.accepts)
	}
	if a.key {
		key, err := keyname.Parse(text)
		if err == nil && wire.CheckKey(key) != nil {
			err = fmt.Errorf("%s is not accepted: expected %s", a.name, a.accepts)
		}
		return key, err
	}
	if a.moment {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return "", fmt.Errorf("%s is not a time: expected %s", a.name, a.accepts)
		}
	}
	return text, nil
}

// escape matches a JSON escape. Its group is one half of a surrogate pair without the other.
var escape = regexp.MustCompile(`(?is)\\(?:ud[89ab]..\\ud[c-f]..|(ud[89a-f]..)|.)`)

// isUnicode reports whether JSON is valid UTF-8 and escapes no half of a surrogate pair. The decoder
// would replace the half, and the memory would keep text that nobody wrote.
func isUnicode(raw []byte) bool {
	for _, found := range escape.FindAllSubmatchIndex(raw, -1) {
		if found[2] >= 0 {
			return false
		}
	}
	return utf8.Valid(raw)
}
