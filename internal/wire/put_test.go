package wire_test

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/botwired/botwired/internal/wire"
)

var asJSON = http.Header{"Content-Type": {"application/json"}}

func TestDecodePut(t *testing.T) {
	for body, want := range map[string]string{
		`{"value":"x"}`:                                "x",
		"\t\r\n {\n\"value\" :\t\"x\" } ":              "x",
		`{"value":""}`:                                 "",
		`{"value":"\"\\\/\b\f\n\r\t"}`:                 "\"\\/\b\f\n\r\t",
		`{"value":"h\u00E9llo \ud83d\ude80"}`:          "héllo 🚀",
		"{\"value\":\"é🚀\u2028\x7f\"}":                 "é🚀\u2028\x7f",
		`{"value":"a\u0000b"}`:                         "a\x00b",
		`{"value":"\\ud83d\uFFFD"}`:                    `\ud83d` + "\uFFFD",
		`{"v\u0061lue":"escaped name"}`:                "escaped name",
		`{"value":1,"value":"last"}`:                   "last",
		`{"value":"v","ttl":60,"x":{"value":"in"}}`:    "v",
		`{"x":[{"value":1}],"value":"v"}`:              "v",
		`{"value":"v","Value":"w","VALUE":"z"}`:        "v",
		`{"value":"v","x":[NaN,-Infinity,1E400]}`:      "v",
		`{"value":"v","x":"\ud800","\udc00":1}`:        "v",
		"\xef\xbb\xbf{\"value\":\"bom\"}":              "bom",
		`{"value":"v","x":` + nested(999) + `}`:        "v",
		`{"value":"v","x":-` + digits(4300) + `}`:      "v",
		`{"value":"v","x":` + digits(4301) + `.0}`:     "v",
		`{"value":"v","x":` + digits(4301) + `e-1}`:    "v",
		`{"value":"` + strings.Repeat("x", 3e5) + `"}`: strings.Repeat("x", 3e5),
	} {
		got, refusal := wire.DecodePut(asJSON, []byte(body))
		if refusal != nil {
			t.Errorf("%.80q: refused: %s", body, refusal.Body)
		} else if got != want {
			t.Errorf("%.80q: got %.80q, want %.80q", body, got, want)
		}
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func digits(n int) string { return strings.Repeat("1", n) }

const (
	unreadable  = `{"detail":"There was an error parsing the body"}`
	emptyBody   = `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]}`
	noValue     = `{"detail":[{"type":"missing","loc":["body","value"],"msg":"Field required","input":INPUT}]}`
	notString   = `{"detail":[{"type":"string_type","loc":["body","value"],"msg":"Input should be a valid string","input":INPUT}]}`
	notUnicode  = `{"detail":[{"type":"string_unicode","loc":["body","value"],"msg":"Input should be a valid string, unable to parse raw data as a unicode string","input":INPUT}]}`
	notAnObject = `{"detail":[{"type":"model_attributes_type","loc":["body"],"msg":"Input should be a valid dictionary or object to extract fields from","input":INPUT}]}`
)

func TestDecodePutRefuses(t *testing.T) {
	for _, c := range []struct{ body, input, want string }{
		{"", "", emptyBody},
		{"null", "", emptyBody},
		{"\xef\xbb\xbf null ", "", emptyBody},
		{"{}", "{}", noValue},
		{`{"val":"x"}`, `{"val":"x"}`, noValue},
		{`{"Value":"x"}`, `{"Value":"x"}`, noValue},
		{`[]`, `[]`, notAnObject},
		{`"x"`, `"x"`, notAnObject},
		{`1`, `1`, notAnObject},
		{`false`, `false`, notAnObject},
		{`NaN`, `null`, notAnObject},
		{`[ 1 , [ ] , { } ,"é<"]`, `[1,[],{},"é<"]`, notAnObject},
		{`{"value":null}`, `null`, notString},
		{`{"value":true}`, `true`, notString},
		{`{"value": [1, {"a" : "b"}]}`, `[1,{"a":"b"}]`, notString},
		{`{"value":"x","value":1}`, `1`, notString},
		{`{"value":1.50}`, `1.50`, notString},
		{`{"value":12345678901234567890123}`, `12345678901234567890123`, notString},
		{`{"value":NaN}`, `null`, notString},
		{`{"value":-Infinity}`, `null`, notString},
		{`{"value":[1,NaN]}`, `null`, notString},
		{`{"a":"\udc00\ud800"}`, `{"a":"\udc00\ud800"}`, noValue},
		{`{"value":"\ud800"}`, `"\ud800"`, notUnicode},
		{`{"value":"\ud83dA\uDE80"}`, `"\ud83dA\uDE80"`, notUnicode},
		{`{"value":"\ud83d\ud83d\ude80"}`, `"\ud83d\ud83d\ude80"`, notUnicode},
		{`{"value":"\\\ud83d"}`, `"\\\ud83d"`, notUnicode},
		{`{"value":"a\ude80\ud83dz"}`, `"a\ude80\ud83dz"`, notUnicode},
	} {
		_, refusal := wire.DecodePut(asJSON, []byte(c.body))
		want := strings.Replace(c.want, "INPUT", c.input, 1)
		if refusal == nil || refusal.Status != 422 || string(refusal.Body) != want {
			t.Errorf("%q:\ngot  %v\nwant %s", c.body, answer(refusal), want)
		}
	}
}

func answer(r *wire.Refusal) string {
	if r == nil {
		return "accepted"
	}
	return r.Error() + " " + string(r.Body)
}

func TestDecodePutUnreadable(t *testing.T) {
	for _, body := range []string{
		"\xff", "{\"value\":\"\xc3\"}", "{\"value\":\"\xed\xa0\"}", "\xef\xbb\xbf\xff", "{\"value\":\"\xf4\x90\x80\x80\"}",
		"\xff\xfe{", "\xff\xfe\x00\x00{\x00\x00", "\x00\x00\x00{\x00\x11\x00\x00", "{\"value\":\"\xc0\x80\"}",
		"{\"value\":\"\xed\xa0\xbd\xed\xba\x80\"}", "\xff\xfe{\x00\x00\xd8", "\xff\xfe\x00\xd8{\x00",
		`{"value":"v","x":` + nested(1000) + `}`, nested(100_000),
		`{"value":"v","x":` + digits(4301) + `}`, `{"x":-` + digits(4301) + `,`,
	} {
		_, refusal := wire.DecodePut(asJSON, []byte(body))
		if refusal == nil || refusal.Status != 400 || string(refusal.Body) != unreadable {
			t.Errorf("%.60q: got %s", body, answer(refusal))
		}
	}
}

func TestDecodePutSyntax(t *testing.T) {
	const want = `{"detail":[{"type":"json_invalid","loc":["body",POS],"msg":"JSON decode error","input":{},"ctx":{"error":"MSG"}}]}`
	for _, c := range []struct{ body, pos, msg string }{
		{" ", "1", "Expecting value"},
		{"\xef\xbb\xbf", "0", "Expecting value"},
		{"\xef\xbb\xbf\xef\xbb\xbf{}", "0", "Expecting value"},
		{"{", "1", "Expecting property name enclosed in double quotes"},
		{"{'value':'x'}", "1", "Expecting property name enclosed in double quotes"},
		{`{"value":`, "9", "Expecting value"},
		{`{"value":"x"}}`, "13", "Extra data"},
		{`{"value":"é🚀"}x`, "14", "Extra data"},
		{`{"value" "x"}`, "9", "Expecting ':' delimiter"},
		{`{"value":"x" "y"}`, "13", "Expecting ',' delimiter"},
		{`{"value":"x",}`, "13", "Expecting property name enclosed in double quotes"},
		{`[1,]`, "3", "Expecting value"},
		{`[1 2]`, "3", "Expecting ',' delimiter"},
		{`[`, "1", "Expecting value"},
		{`{"value":01}`, "10", "Expecting ',' delimiter"},
		{`{"value":1.}`, "10", "Expecting ',' delimiter"},
		{`{"value":1e+}`, "10", "Expecting ',' delimiter"},
		{`{"value":-}`, "9", "Expecting value"},
		{`{"value":+1}`, "9", "Expecting value"},
		{`{"value":nul}`, "9", "Expecting value"},
		{`{"value":-NaN}`, "9", "Expecting value"},
		{"{\"value\":\"a\nb\"}", "11", "Invalid control character at"},
		{`{"value":"abc`, "9", "Unterminated string starting at"},
		{`{"value":"abc\`, "9", "Unterminated string starting at"},
		{`{"value":"a\"`, "9", "Unterminated string starting at"},
		{`{"value":"a\x"}`, "11", `Invalid \\escape`},
		{`{"value":"\u12g4"}`, "11", `Invalid \\uXXXX escape`},
		{`{"value":"\u1234`, "11", `Invalid \\uXXXX escape`},
		{"{\"value\":\"x\"}\x00", "13", "Extra data"},
	} {
		_, refusal := wire.DecodePut(asJSON, []byte(c.body))
		want := strings.NewReplacer("POS", c.pos, "MSG", c.msg).Replace(want)
		if refusal == nil || refusal.Status != 422 || string(refusal.Body) != want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.body, answer(refusal), want)
		}
	}
}

func TestDecodePutContentTypes(t *testing.T) {
	const body = `{"value":"x"}`
	refused := strings.Replace(notAnObject, "INPUT", `"{\"value\":\"x\"}"`, 1)
	for contentType, accepted := range map[string]bool{
		"": true, "application/json": true, "APPLICATION/JSON": true, "application/json; charset=utf-16": true,
		"application/json ;x": true, "application/vnd.api+json": true, "application/x+JSON": true, "application/+json": true,
		"text/plain": false, "text/json": false, "json": false, "application": false, "application/jsonx": false,
		"application/json/x": false, "application/a/b+json": false, "application /json": false, "application/ json": false,
		"application/x-json": false, ";application/json": false, "application/json, text/plain": false,
		"application/x-www-form-urlencoded": false, "multipart/form-data": false,
	} {
		_, refusal := wire.DecodePut(http.Header{"Content-Type": {contentType}}, []byte(body))
		if accepted && refusal != nil || !accepted && (refusal == nil || string(refusal.Body) != refused) {
			t.Errorf("%q: %s", contentType, answer(refusal))
		}
	}
	if _, refusal := wire.DecodePut(http.Header{}, []byte(body)); refusal != nil {
		t.Errorf("no content type: %s", answer(refusal))
	}
	several := http.Header{"Content-Type": {"application/json", "text/plain"}}
	if _, refusal := wire.DecodePut(several, []byte(body)); refusal != nil {
		t.Errorf("the first content type counts: %s", answer(refusal))
	}
	plain := http.Header{"Content-Type": {"text/plain"}}
	if _, refusal := wire.DecodePut(plain, nil); refusal == nil || string(refusal.Body) != emptyBody {
		t.Errorf("empty text: %s", answer(refusal))
	}
}

func TestDecodePutEncodings(t *testing.T) {
	const value = "é🚀\x00z"
	body := []rune("{\"value\":\"é🚀\\u0000z\"}")
	for name, order := range map[string]binary.AppendByteOrder{"big": binary.BigEndian, "little": binary.LittleEndian} {
		for _, mark := range []string{"", "\uFEFF"} {
			text := append([]rune(mark), body...)
			var in16, in32 []byte
			for _, unit := range utf16.Encode(text) {
				in16 = order.AppendUint16(in16, unit)
			}
			for _, r := range text {
				in32 = order.AppendUint32(in32, uint32(r))
			}
			for size, encoded := range map[int][]byte{16: in16, 32: in32} {
				if got, refusal := wire.DecodePut(asJSON, encoded); refusal != nil || got != value {
					t.Errorf("UTF-%d %s-endian, mark %q: got %q, %s", size, name, mark, got, answer(refusal))
				}
			}
		}
	}
	alone := utf16.Encode([]rune(`{"value":"??"}`))
	alone[10], alone[11] = 0xDC00, 0xD800
	var encoded []byte
	for _, unit := range alone {
		encoded = binary.LittleEndian.AppendUint16(encoded, unit)
	}
	if _, refusal := wire.DecodePut(asJSON, encoded); refusal == nil || string(refusal.Body) != unreadable {
		t.Errorf("lone surrogates in UTF-16: %s", answer(refusal))
	}
}

// The largest body that a valid value can need passes.
func TestMaxBodyBytes(t *testing.T) {
	var body []byte
	for _, r := range `{"value":"` + strings.Repeat(`\ud83d\ude80`, 100_000) + `"}` {
		body = binary.BigEndian.AppendUint32(body, uint32(r))
	}
	if len(body) > wire.MaxBodyBytes {
		t.Fatalf("%d bytes are needed, %d allowed", len(body), wire.MaxBodyBytes)
	}
	value, refusal := wire.DecodePut(asJSON, body)
	if refusal != nil || wire.CheckSize(value) != nil || wire.CodePoints(value) != 100_000 {
		t.Errorf("got %d code points, %s", wire.CodePoints(value), answer(refusal))
	}
}

// An error never contains the body, because errors are logged.
func TestRefusalErrorKeepsTheBodyToItself(t *testing.T) {
	_, refusal := wire.DecodePut(asJSON, []byte(`{"value":["secret"]}`))
	if got, want := refusal.Error(), "refused with 422 Unprocessable Entity"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodePutAllocatesLittle(t *testing.T) {
	body := []byte(`{"value":"` + strings.Repeat("plain text, ", 500) + `","ttl":60}`)
	if n := testing.AllocsPerRun(100, func() { wire.DecodePut(asJSON, body) }); n > 2 {
		t.Errorf("%v allocations for a plain body", n)
	}
}

func checkRefusal(t *testing.T, r *wire.Refusal) {
	t.Helper()
	if !json.Valid(r.Body) || !utf8.Valid(r.Body) || r.Status != 400 && r.Status != 422 {
		t.Errorf("refusal is no good answer: %d %q", r.Status, r.Body)
	}
}

func FuzzDecodePut(f *testing.F) {
	for _, body := range []string{
		`{"value":"x"}`, `{"value":"\ud83d\ude80\n"}`, `{"a":{"a":1,"a":2},"_sa":[1e5,-0]}`, "\xef\xbb\xbf{}", `[NaN,"\ud800"]`,
		"\xff\xfe{\x00}\x00", "{\"value\":\"\xed\xa0\x80\"}", `{"value":1.50}`, `{"v\u0061lue":"é"}`, "\x00\x00\x00{",
	} {
		f.Add("application/json", []byte(body))
	}
	f.Add("text/plain", []byte("\xff\xed\xa0\x80"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		value, refusal := wire.DecodePut(http.Header{"Content-Type": {contentType}}, body)
		if refusal != nil {
			checkRefusal(t, refusal)
			return
		}
		if !utf8.ValidString(value) {
			t.Fatalf("accepted %q", value)
		}
		var got struct{ Value string }
		if err := json.Unmarshal(wire.Entry{Value: value}.AppendJSON(nil), &got); err != nil || got.Value != value {
			t.Errorf("%q came back as %q, %v", value, got.Value, err)
		}
	})
}

func BenchmarkDecodePut(b *testing.B) {
	body := []byte(`{"value":"` + strings.Repeat("plain text, ", 100) + `"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := wire.DecodePut(asJSON, body); refusal != nil {
			b.Fatal(refusal)
		}
	}
}
