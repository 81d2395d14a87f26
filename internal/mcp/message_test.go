package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/mcp"
)

// exchanges has each transport send lines, and returns what comes back, one answer a line.
var exchanges = map[string]func(t *testing.T, s *mcp.Server, lines ...string) []string{
	"stdio": func(t *testing.T, s *mcp.Server, lines ...string) (answers []string) {
		var out bytes.Buffer
		noError(t, s.ServeStdio(t.Context(), strings.NewReader(hello+strings.Join(lines, "\n")), &out))
		for answer := range strings.Lines(out.String()) {
			if !strings.Contains(answer, `"id":"hello"`) && !strings.HasPrefix(answer, `{"jsonrpc":"2.0","method":"notifications/`) {
				answers = append(answers, strings.TrimSuffix(answer, "\n"))
			}
		}
		return answers
	},
	"http": func(t *testing.T, s *mcp.Server, lines ...string) (answers []string) {
		for _, line := range lines {
			switch answer := post(t, s, line); {
			case answer.Header().Get("Content-Type") == "text/event-stream":
				_, last, _ := strings.Cut(answer.Body.String(), "\n\n") // the first is a notification
				_, last, _ = strings.Cut(last, "data: ")
				answers = append(answers, last)
			case answer.Body.Len() > 0:
				answers = append(answers, answer.Body.String())
			}
		}
		return answers
	},
}

func post(t *testing.T, s *mcp.Server, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, r)
	if kind := answer.Header().Get("Content-Type"); answer.Body.Len() > 0 && kind != "application/json" && kind != "text/event-stream" {
		t.Errorf("%.80q is answered %d in %s: %.200s", body, answer.Code, answer.Header().Get("Content-Type"), answer.Body)
	}
	return answer
}

// nowhere is a server whose daemon knows no entry.
func nowhere() *mcp.Server {
	return mcp.New(mcp.Options{Daemon: api.Options{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader(`{"detail":"Not Found"}`))}, nil
	})}})
}

// answer is one of JSON-RPC. Its id is as it was written.
type answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int
		Message string
	}
}

func answerIn(t *testing.T, text string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Version != "2.0" || a.ID == nil || (a.Result == nil) == (a.Error == nil) {
		t.Errorf("this is no answer of JSON-RPC: %v: %.300q", err, text)
	}
	return a
}

// An id comes back byte for byte, in results and in errors, whatever it is.
func TestAnIDComesBackAsItCame(t *testing.T) {
	ids := []string{
		"0", "1", "-1", "1.5", "1.0", "-0", "1e2", "1e400", "-1E-400", "9007199254740993", "1795901303426885001", "18446744073709551616",
		strings.Repeat("9", 400), `""`, `"1"`, `"call"`, `"a\u0041\"\\\n\/"`, `"\ud800"`, `"é😀<>&"`, `"` + strings.Repeat("x", 70_000) + `"`, "null",
	}
	for name, exchange := range exchanges {
		for _, id := range ids {
			got := exchange(t, nowhere(),
				`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}`,
				`{"method":"no/such","params":{"id":3},"id":`+id+`,"jsonrpc":"2.0"}`,
				`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"memory_read","arguments":{"namespace":"n"}}}`,
				`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":7}}`,
				`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call"}`,
				`{"jsonrpc":"1.0","id":`+id+`,"method":"ping"}`)
			codes := map[int]int{}
			for _, text := range got {
				a := answerIn(t, text)
				if string(a.ID) != id {
					t.Errorf("%s: %.80s comes back as %.80s", name, id, a.ID)
				}
				if a.Error == nil {
					codes[0]++
				} else {
					codes[a.Error.Code]++
				}
			}
			if diff := cmp.Diff(map[int]int{0: 2, -32601: 1, -32602: 1, -32600: 2}, codes); diff != "" {
				t.Errorf("%s: %.80s: codes (-want +got):\n%s%.2000s", name, id, diff, strings.Join(got, "\n"))
			}
		}
	}
}

// A subscription is named after the id of its call, as it came.
func TestASubscriptionHasTheIDOfItsCall(t *testing.T) {
	const listen = `{"jsonrpc":"2.0","id":1795901303426885001,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	var got strings.Builder
	noError(t, nowhere().ServeStdio(t.Context(), strings.NewReader(listen), &got))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(listen))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		r.Header.Set(name, value)
	}
	over := httptest.NewRecorder()
	nowhere().Handler().ServeHTTP(over, r)
	for name, text := range map[string]string{"stdio": got.String(), "http": over.Body.String()} {
		if strings.Count(text, `"io.modelcontextprotocol/subscriptionId":1795901303426885001`) != 2 || strings.Count(text, `"id":1795901303426885001`) != 1 {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Two subscriptions keep their ids, also if one is called as the server calls the other.
func TestSubscriptionsAreNotMixedUp(t *testing.T) {
	listen := func(id string) string {
		return `{"jsonrpc":"2.0","id":"` + id + `","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	}
	for range 20 {
		var got strings.Builder
		noError(t, nowhere().ServeStdio(t.Context(), strings.NewReader(listen("2")+listen("3")), &got))
		for _, id := range []string{"2", "3"} {
			if strings.Count(got.String(), `"io.modelcontextprotocol/subscriptionId":"`+id+`"`) != 2 {
				t.Fatalf("%s:\n%s", id, got.String())
			}
		}
	}
}

// What is no message gets one error, which repeats nothing of it, and the next message its answer.
func TestGarbageIsAnsweredAndEndsNothing(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		sent, id string
		code     int
	}{
		{"S3CRET: listening on port 80", "null", -32700},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/ca`, "null", -32700},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}{"jsonrpc":"2.0","id":8,"method":"ping"}`, "null", -32700},
		{`[{"jsonrpc":"2.0","id":7,"method":"ping"},`, "null", -32700},
		{"42", "null", -32600},
		{`"S3CRET"`, "null", -32600},
		{"null", "null", -32600},
		{"{}", "null", -32600},
		{"[]", "null", -32600},
		{`{"id":7}`, "7", -32600},
		{`{"id":7,"method":"ping"}`, "7", -32600},
		{`{"jsonrpc":2.0,"id":7,"method":"ping"}`, "7", -32600},
		{`{"JSONRPC":"2.0","ID":7,"METHOD":"ping"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":7}`, "7", -32600},
		{`{"jsonrpc":"2.0","result":{}}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":7,"method":null}`, "7", -32600},
		{`{"jsonrpc":"2.0","id":7,"method":["S3CRET"]}`, "7", -32600},
		{`{"jsonrpc":"2.0","id":{"S3CRET":1},"method":"ping"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}`, "7", -32600},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":["S3CRET"]}`, "7", -32602},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"S3CRET"}`, "7", -32602},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + deep(5_000) + `}`, "7", -32600},
		{deep(100_000), "null", -32700},
		{`{"jsonrpc":"2.0","id":7,"method":"ping","params":` + deep(100_000) + `}`, "null", -32700},
		{"\xff\xfe{\x00\"\x00", "null", -32700},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"\xc3\x28\"}}", "7", -32700},
		{"\x00\x01\x02", "null", -32700},
		{"x" + strings.Repeat("S3CRET", 3<<20), "null", -32600},
		{`"` + strings.Repeat("S3CRET", 3<<20) + `"`, "null", -32600},
	} {
		for name, exchange := range exchanges {
			got := exchange(t, nowhere(), c.sent, `{"jsonrpc":"2.0","id":"next","method":"ping"}`)
			slices.SortFunc(got, func(a, b string) int { return strings.Compare(a, b) }) // the result before the error
			if len(got) != 2 || !strings.Contains(got[0], `"id":"next","result"`) {
				t.Errorf("%s: %.60q: %.500q", name, c.sent, got)
				continue
			}
			a := answerIn(t, got[1])
			if string(a.ID) != c.id || a.Error == nil || a.Error.Code != c.code || strings.Contains(got[1], "S3CRET") || len(got[1]) > 300 {
				t.Errorf("%s: %.60q: %.500q", name, c.sent, got[1])
			}
		}
	}
}

// What JSON-RPC permits is taken: blank lines, CRLF, a byte order mark, white space, and batches. A notification and
// an answer to nobody's question get no answer.
func TestWhatJSONRPCPermits(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":%s,"method":"ping"}`
	for sent, want := range map[string][]string{
		"": nil, " \t\r": nil,
		fmt.Sprintf(ping, "1") + "\r":     {"1"},
		"\ufeff" + fmt.Sprintf(ping, "1"): {"1"},
		" \t{ \"id\" : 1 , \"jsonrpc\" :\t\"2.0\", \"extra\": [], \"method\":\"p\\u0069ng\" } ":                                    {"1"},
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`:                                                                   {"1"},
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                                                                   nil,
		`{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}`:                                                         nil,
		`{"jsonrpc":"2.0","method":"notifications/no/such","params":[1]}`:                                                          nil,
		`{"jsonrpc":"2.0","method":"tools/call"}`:                                                                                  nil,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1e400}}`:                                        nil,
		`{"jsonrpc":"2.0","id":5,"result":{}}`:                                                                                     nil,
		`{"jsonrpc":"2.0","id":{},"error":5}`:                                                                                      {"null"},
		"[" + fmt.Sprintf(ping, "1.5") + ", " + fmt.Sprintf(ping, `"b"`) + "]":                                                     {"1.5", `"b"`},
		"[" + fmt.Sprintf(ping, "1") + `,{"jsonrpc":"2.0","method":"notifications/initialized"},7,` + fmt.Sprintf(ping, "1") + "]": {"1", "1", "null"},
		`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`:                                                                 nil,
		"[1,2]": {"null", "null"},
	} {
		for name, exchange := range exchanges {
			if name == "http" && strings.TrimSpace(sent) == "" {
				continue // over HTTP a blank body is no message
			}
			var got []string
			for _, text := range exchange(t, nowhere(), sent) {
				answers := []json.RawMessage{json.RawMessage(text)}
				if isBatch := strings.HasPrefix(text, "["); isBatch != strings.HasPrefix(sent, "[") {
					t.Errorf("%s: %q is answered %s", name, sent, text)
				} else if isBatch {
					noError(t, json.Unmarshal([]byte(text), &answers))
				}
				for _, a := range answers {
					got = append(got, string(answerIn(t, string(a)).ID))
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %q: ids (-want +got):\n%s", name, sent, diff)
			}
		}
	}
}

// A cancellation finds its call, whatever its id.
func TestACancellationFindsItsCall(t *testing.T) {
	for _, id := range []string{"1", "1795901303426885001", "1.5", `"x"`} {
		asked := make(chan struct{})
		s := mcp.New(mcp.Options{Daemon: api.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			close(asked)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}})
		in, client := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- s.ServeStdio(t.Context(), in, io.Discard) }()
		_, err := io.WriteString(client, hello+`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"memory_read","arguments":{"namespace":"n","key":"k"}}}`+"\n")
		noError(t, err)
		<-asked
		_, err = io.WriteString(client, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": `+id+` , "reason":"r"}}`+"\n")
		noError(t, err)
		noError(t, client.Close())
		noError(t, <-ended)
	}
}

// Whatever a line is, a call has one answer with its id, what is no message one error, and anything else none; and
// the next call is answered.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		"garbage", "42", `{"id":7}`, "[]", `[1,{"jsonrpc":"2.0","id":1e400,"method":"ping"}]`, "\xff", `{"jsonrpc":"2.0","id":"\ud800","method":"x"}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"memory_write","arguments":{"namespace":"n","key":1,"value":{"a":[true]}}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"end"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{}}}`, `{"jsonrpc":"2.0","id":9,"error":{"code":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		if bytes.ContainsRune(sent, '\n') || bytes.Contains(sent, []byte("hello")) {
			return
		}
		calls, others := expected(sent)
		for name, exchange := range exchanges {
			if name == "http" && len(bytes.TrimLeft(sent, "\ufeff \t\r")) == 0 {
				continue
			}
			got := map[string]int{}
			for _, text := range exchange(t, nowhere(), string(sent), `{"jsonrpc":"2.0","id":"end","method":"ping"}`) {
				answers := []json.RawMessage{json.RawMessage(text)}
				if strings.HasPrefix(text, "[") {
					noError(t, json.Unmarshal([]byte(text), &answers))
				}
				for _, one := range answers {
					if !utf8.Valid(one) {
						t.Errorf("%s: the answer is not UTF-8: %q", name, one)
					}
					if a := answerIn(t, string(one)); others > 0 && a.Error != nil && (a.Error.Code == -32600 || a.Error.Code == -32700) && calls[string(a.ID)] <= got[string(a.ID)] {
						others--
						continue
					} else {
						got[string(a.ID)]++
					}
				}
			}
			want := maps.Clone(calls)
			want[`"end"`]++
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %q: answers (-want +got):\n%s", name, sent, diff)
			}
			calls, others = expected(sent)
		}
	})
}

// expected counts the calls in a line by id, and the parts that are no message.
func expected(line []byte) (calls map[string]int, others int) {
	calls = make(map[string]int)
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	line = bytes.Trim(line, " \t\r")
	if len(line) == 0 {
		return calls, 0
	}
	parts := []json.RawMessage{line}
	if line[0] == '[' && json.Valid(line) {
		parts = nil
		if json.Unmarshal(line, &parts) != nil || len(parts) == 0 {
			return calls, 1
		}
	}
	for _, part := range parts {
		var m map[string]any
		var raw map[string]json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(part))
		decoder.UseNumber()
		if !json.Valid(part) || !utf8.Valid(part) || decoder.Decode(&m) != nil || json.Unmarshal(part, &raw) != nil || m["jsonrpc"] != "2.0" {
			others++
			continue
		}
		method, isText := m["method"].(string)
		id, hasID := m["id"]
		isFine := !hasID
		switch id.(type) {
		case nil, string, json.Number:
			isFine = true
		}
		isNotification := strings.HasPrefix(string(raw["method"]), `"notifications/`)
		switch {
		case !isFine, raw["method"] != nil && (!isText || method == ""):
			others++
		case raw["method"] == nil && hasID && (raw["result"] != nil || raw["error"] != nil): // an answer
		case raw["method"] == nil:
			others++
		case isNotification && id != nil:
			others++
		case isNotification, !hasID:
		default:
			calls[string(raw["id"])]++
		}
	}
	return calls, others
}
