package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxBodyBytes bounds the body of a PUT. The largest body for a valid value holds 100,000 characters, each
// escaped as a surrogate pair (12 characters), in UTF-32 (4 bytes each): 4,800,000 bytes. The rest of the 5
// MiB, some 440 kB, leaves room for white space and other fields.
const MaxBodyBytes = 5 << 20

// DecodePut returns the value in the body of a PUT. The refusal is a 422 if the body has the wrong shape, or
// a 400 if it is unreadable. The value is valid UTF-8. [CheckSize] checks its size.
func DecodePut(header http.Header, body []byte) (value string, refusal *Refusal) {
	if len(body) == 0 {
		return "", fieldMissing(`"body"`, []byte("null"))
	}
	if !isJSON(header) {
		return "", notAnObject(appendString(nil, body))
	}
	text, ok := decodeText(body)
	if !ok {
		return "", errUnreadable
	}
	doc, err := scan(text)
	if syntax := (*syntaxError)(nil); errors.As(err, &syntax) {
		return "", invalidJSON(text, syntax)
	}
	if err != nil { // BotWire's parser gives up on it
		return "", errUnreadable
	}
	return doc.decodeValue()
}

// ReadPut reads a PUT of an entry and checks it in BotWire's order: the body's shape, the names, the value's
// size. It returns the value, and the room that it takes until Release.
func (b *Bodies) ReadPut(w http.ResponseWriter, r *http.Request, ns, key string) (value string, room Room, refusal *Refusal) {
	body, held, refusal := b.Read(w, r)
	if refusal != nil {
		return "", Room{}, refusal
	}
	defer func() { held.Release() }()
	value, refusal = DecodePut(r.Header, body)
	if refusal == nil {
		refusal = CheckPut(ns, key, value)
	}
	if refusal != nil {
		return "", Room{}, refusal
	}
	room, held = held, Room{}
	return value, room, nil
}

func (d document) decodeValue() (string, *Refusal) {
	if first := d.text[d.root.start]; first != '{' {
		if first == 'n' {
			return "", fieldMissing(`"body"`, []byte("null"))
		}
		return "", notAnObject(d.echo(d.root))
	}
	if !d.found {
		return "", fieldMissing(`"body","value"`, d.echo(d.root))
	}
	token := d.text[d.value.start:d.value.end]
	if token[0] != '"' {
		return "", invalid("string_type", `"body","value"`, "Input should be a valid string", d.echo(d.value), "")
	}
	value := unquote(token)
	if !utf8.Valid(value) { // half a character
		const msg = "Input should be a valid string, unable to parse raw data as a unicode string"
		return "", invalid("string_unicode", `"body","value"`, msg, d.echo(d.value), "")
	}
	return string(value), nil
}

// echo returns a piece of the body as the "input" of an error; null for numbers that JSON lacks, such as NaN.
func (d document) echo(piece span) []byte {
	var b bytes.Buffer
	if json.Compact(&b, d.text[piece.start:piece.end]) != nil {
		return []byte("null")
	}
	return b.Bytes()
}

// isJSON reports whether BotWire reads the body as JSON: without a content type, or with application/json or
// application/...+json. The first Content-Type header counts.
func isJSON(header http.Header) bool {
	contentType := header.Get("Content-Type")
	if contentType == "" {
		return true
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	main, sub, _ := strings.Cut(mediaType, "/")
	return main == "application" && (sub == "json" || strings.HasSuffix(sub, "+json") && !strings.Contains(sub, "/"))
}

// invalid returns a 422 with one error. loc is the inside of a JSON list. input and ctx are JSON; an empty
// ctx is left out.
func invalid(kind, loc, msg string, input []byte, ctx string) *Refusal {
	b := append([]byte(nil), `{"detail":[{"type":`...)
	b = appendString(b, kind)
	b = append(b, `,"loc":[`+loc+`],"msg":`...)
	b = appendString(b, msg)
	b = append(b, `,"input":`...)
	b = append(b, input...)
	if ctx != "" {
		b = append(b, `,"ctx":`+ctx...)
	}
	return &Refusal{Status: http.StatusUnprocessableEntity, Body: append(b, "}]}"...)}
}

func fieldMissing(loc string, input []byte) *Refusal {
	return invalid("missing", loc, "Field required", input, "")
}

func notAnObject(input []byte) *Refusal {
	const msg = "Input should be a valid dictionary or object to extract fields from"
	return invalid("model_attributes_type", `"body"`, msg, input, "")
}

// invalidJSON returns a 422 that gives the error's place in characters.
func invalidJSON(text []byte, err *syntaxError) *Refusal {
	loc := `"body",` + strconv.Itoa(utf8.RuneCount(text[:err.pos]))
	ctx := append(appendString([]byte(`{"error":`), err.msg), '}')
	return invalid("json_invalid", loc, "JSON decode error", []byte("{}"), string(ctx))
}

var errUnreadable = Detail(http.StatusBadRequest, "There was an error parsing the body")
