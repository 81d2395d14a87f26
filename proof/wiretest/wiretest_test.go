package wiretest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	steps := 0
	for _, s := range load(t) {
		steps += len(s.Steps)
	}
	if steps != 126 {
		t.Errorf("%d steps are recorded, want 126", steps)
	}
}

func TestDifferences(t *testing.T) {
	recorded := func(body string) answer { return received(200, "application/json", body) }
	for _, c := range []struct {
		name      string
		want, got answer
		same      bool
	}{
		{"alike", recorded(`{"key":"k","n":1}`), recorded(`{"key":"k", "n":1.0}`), true},
		{"status", recorded(`{}`), received(201, "application/json", `{}`), false},
		{"content type", recorded(`{}`), received(200, "text/plain", `{}`), false},
		{"order", recorded(`{"a":1,"b":1}`), recorded(`{"b":1,"a":1}`), false},
		{"null and absent", recorded(`{"a":null}`), recorded(`{}`), false},
		{"text", received(200, "", "OK"), received(200, "", "ok"), false},
		{"recent time", recorded(`{"updated_at":"<now>"}`), recorded(`{"updated_at":NOW}`), true},
		{"old time", recorded(`{"updated_at":"<now>"}`), recorded(`{"updated_at":1700000000.0}`), false},
		{"wording of a syntax error", recorded(`{"detail":[{"type":"json_invalid","x":1}]}`), recorded(`{"detail":[{"type":"json_invalid"}]}`), true},
		{"another error", recorded(`{"detail":[{"type":"json_invalid"}]}`), recorded(`{"detail":[{"type":"missing"}]}`), false},
		{"crash and refusal", received(500, "", "crash"), received(422, "application/json", `{}`), true},
		{"crash and success", received(500, "", "crash"), recorded(`{}`), false},
	} {
		if diff := differences(c.want, c.got); (diff == "") != c.same {
			t.Errorf("%s: %q", c.name, diff)
		}
	}
}

// received is what outcome makes of a response; NOW in its body is the current time.
func received(status int, contentType, body string) answer {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	body = strings.ReplaceAll(body, "NOW", strconv.FormatInt(time.Now().Unix(), 10))
	return outcome(&http.Response{StatusCode: status, Header: header}, []byte(body), "http://localhost", "some-namespace")
}

func TestRequestIsSentAsRecorded(t *testing.T) {
	body := []byte("{}")
	r := request{Method: "PUT", Target: "/memory/NS/%2e%2e//x", Headers: map[string]string{"Content-Type": "text/plain", "A": "b"}, Body: &body}
	got := string(r.bytes("h:1", "ns", ""))
	want := "PUT /memory/ns/%2e%2e//x HTTP/1.1\r\nHost: h:1\r\nA: b\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	r = request{Method: "GET", Target: "/memory/NS"}
	got = string(r.bytes("h:1", "ns", ""))
	if want := "GET /memory/ns HTTP/1.1\r\nHost: h:1\r\n\r\n"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
