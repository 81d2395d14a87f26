package fastpath

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sdkRequests are requests as SDKs send them.
var sdkRequests = []string{
	"GET /memory/agent-1/plan HTTP/1.1\r\nHost: 127.0.0.1:2689\r\nUser-Agent: python-requests/2.32\r\n" +
		"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
	"PUT /memory/agent-1/plan HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 13\r\n" +
		"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{\"value\":\"a\"}",
	"GET /memory/agent-1?limit=10 HTTP/1.1\r\nhost: [::1]:2689\r\nconnection: keep-alive\r\naccept: */*\r\n" +
		"accept-language: *\r\nsec-fetch-mode: cors\r\nuser-agent: node\r\naccept-encoding: gzip, deflate\r\n\r\n",
	"DELETE /memory/a/.. HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n",
}

func TestWhatSDKsSendIsSimple(t *testing.T) {
	for _, text := range sdkRequests {
		var r Request
		if size, v := parse([]byte(text), &r); v != whole || size != len(text) {
			t.Errorf("%q: part %d, %d of %d bytes", text, v, size, len(text))
		}
		var pipelined Request
		if size, v := parse([]byte(text+text), &pipelined); v != whole || size != len(text) {
			t.Errorf("followed by another, %q: part %d, %d of %d bytes", text, v, size, len(text))
		}
	}
}

// A request that has not arrived whole is never taken for one, wherever it is cut.
func TestPartialRequests(t *testing.T) {
	for _, text := range sdkRequests {
		head := strings.Index(text, "\r\n\r\n") + 4
		for n := range len(text) {
			want := noHead
			if n >= head {
				want = noBody
			}
			var r Request
			if _, v := parse([]byte(text[:n]), &r); v != want {
				t.Errorf("%q: part %d, want %d", text[:n], v, want)
			}
		}
	}
}

func TestWhatIsUnusual(t *testing.T) {
	const host = "Host: h\r\n"
	get := func(headers string) string { return "GET /memory/n/k HTTP/1.1\r\n" + headers + "\r\n" }
	put := func(headers, body string) string { return "PUT /memory/n/k HTTP/1.1\r\n" + headers + "\r\n" + body }
	for name, text := range map[string]string{
		"another method":           "POST /memory/n/k HTTP/1.1\r\n" + host + "\r\n",
		"a method in lower case":   "get /memory/n/k HTTP/1.1\r\n" + host + "\r\n",
		"another path":             "GET /_botwired/status HTTP/1.1\r\n" + host + "\r\n",
		"an absolute target":       "GET http://h/memory/n/k HTTP/1.1\r\n" + host + "\r\n",
		"an escape in the path":    "GET /memory/n/%6b HTTP/1.1\r\n" + host + "\r\n",
		"a fragment":               "GET /memory/n/k#x HTTP/1.1\r\n" + host + "\r\n",
		"an escape in the query":   "GET /memory/n?limit=%31 HTTP/1.1\r\n" + host + "\r\n",
		"a plus in the query":      "GET /memory/n?limit=+1 HTTP/1.1\r\n" + host + "\r\n",
		"a space in the path":      "GET /memory/n /k HTTP/1.1\r\n" + host + "\r\n",
		"two spaces":               "GET  /memory/n/k HTTP/1.1\r\n" + host + "\r\n",
		"HTTP/1.0":                 "GET /memory/n/k HTTP/1.0\r\n" + host + "\r\n",
		"HTTP/2's preface":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"an empty first line":      "\r\n" + get(host),
		"a bare line feed":         "GET /memory/n/k HTTP/1.1\nHost: h\n\n",
		"a bare carriage return":   get("Host: h\r\nAccept: a\rb\r\n"),
		"no host":                  get(""),
		"an empty host":            get("Host: \r\n"),
		"two hosts":                get(host + host),
		"a host with a path":       get("Host: h/x\r\n"),
		"a folded header":          get(host + "Accept: a\r\n b\r\n"),
		"a space before the colon": get("Host : h\r\n"),
		"no colon":                 get(host + "Accept\r\n"),
		"a tab":                    get(host + "Accept:\ta\r\n"),
		"a byte that is not ASCII": get(host + "User-Agent: \xe9\r\n"),
		"close":                    get(host + "Connection: close\r\n"),
		"an upgrade":               get(host + "Connection: upgrade\r\n"),
		"two connections":          get(host + "Connection: keep-alive\r\nConnection: keep-alive\r\n"),
		"an Origin":                get(host + "Origin: http://h\r\n"),
		"a Referer":                get(host + "Referer: http://h\r\n"),
		"a cookie":                 get(host + "Cookie: a=b\r\n"),
		"Sec-Fetch-Site":           get(host + "Sec-Fetch-Site: none\r\n"),
		"cache directives":         get(host + "Cache-Control: no-cache\r\n"),
		"a preference":             put(host+"Prefer: wait=1\r\nContent-Length: 1\r\n", "1"),
		"two authorizations":       get(host + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
		"a GET with a body":        get(host+"Content-Length: 1\r\n") + "x",
		"a PUT without length":     put(host, ""),
		"two lengths":              put(host+"Content-Length: 1\r\nContent-Length: 1\r\n", "1"),
		"a signed length":          put(host+"Content-Length: +1\r\n", "1"),
		"a list of lengths":        put(host+"Content-Length: 1, 1\r\n", "1"),
		"an empty length":          put(host+"Content-Length:\r\n", ""),
		"chunks":                   put(host+"Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"),
		"chunks and a length":      put(host+"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
		"an expectation":           put(host+"Expect: 100-continue\r\nContent-Length: 1\r\n", ""),
		"an encoding":              put(host+"Content-Encoding: gzip\r\nContent-Length: 1\r\n", "1"),
		"a large body":             put(host+"Content-Length: 32769\r\n", ""),
		"a huge length":            put(host+"Content-Length: 99999999999999999999\r\n", ""),
		"a long line":              "GET /memory/n/" + strings.Repeat("k", maxHead),
		"a long head":              "GET /memory/n/k HTTP/1.1\r\n" + strings.Repeat("Accept: a\r\n", maxHead/10),
		"a long head, complete":    get(host + strings.Repeat("Accept: a\r\n", maxHead/10)),
	} {
		var r Request
		if _, v := parse([]byte(text), &r); v != unusual {
			t.Errorf("%s: part %d", name, v)
		}
	}
}

// FuzzSimpleRequests holds the reading of a simple request against net/http's: a request
// on whose extent or meaning the two differed could smuggle another past the guard.
func FuzzSimpleRequests(f *testing.F) {
	for _, text := range sdkRequests {
		f.Add([]byte(text))
		f.Add([]byte(text + sdkRequests[0]))
		f.Add([]byte(strings.Replace(text, "\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc", 1)))
		f.Add([]byte(strings.Replace(text, ": ", " : ", 1)))
		f.Add([]byte(strings.Replace(text, "\r\n", "\n", 1)))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var r Request
		size, v := parse(input, &r)
		if v != whole {
			return
		}
		stream := bytes.NewReader(input)
		buffered := bufio.NewReader(stream)
		theirs, err := http.ReadRequest(buffered)
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil {
			t.Fatalf("net/http refuses its body: %v", err)
		}
		if end := len(input) - stream.Len() - buffered.Buffered(); end != size {
			t.Errorf("it ends after %d bytes; net/http says %d", size, end)
		}
		if theirs.Method != r.Method || theirs.URL.Path != r.Path || theirs.URL.RawPath != "" ||
			(theirs.URL.RawQuery != "" || theirs.URL.ForceQuery) != r.Query ||
			theirs.Host != string(r.host) || !bytes.Equal(body, r.Body) || theirs.Close || len(theirs.TransferEncoding) > 0 {
			t.Errorf("read as %+v; net/http says %+v, body %q", r, theirs, body)
		}
		if (theirs.Header.Get("Content-Type") == "application/json") != r.JSON ||
			theirs.Header.Get("Authorization") != string(r.authorization) || len(theirs.Header["Authorization"]) > 1 {
			t.Errorf("headers read as %+v; net/http says %v", r, theirs.Header)
		}
		for name := range theirs.Header {
			if name == "Origin" || name == "Sec-Fetch-Site" || name == "Referer" || name == "Cookie" {
				t.Errorf("a page could have sent it: %v", theirs.Header)
			}
		}
	})
}
