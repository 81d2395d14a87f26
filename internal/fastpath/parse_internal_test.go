package fastpath

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sdkRequests are requests that SDKs send.
var sdkRequests = []string{
	"GET /memory/agent-1/plan HTTP/1.1\r\nHost: 127.0.0.1:2689\r\nUser-Agent: python-requests/2.32\r\n" +
		"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
	"PUT /memory/agent-1/plan HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 13\r\n" +
		"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{\"value\":\"a\"}",
	"GET /memory/agent-1?limit=10 HTTP/1.1\r\nhost: [::1]:2689\r\nconnection: keep-alive\r\naccept: */*\r\n" +
		"accept-language: *\r\nsec-fetch-mode: cors\r\nuser-agent: node\r\naccept-encoding: gzip, deflate\r\n\r\n",
	"DELETE /memory/a/.. HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n",
	"GET /memory/a/b HTTP/1.1\r\nHost: h\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n" +
		"tracestate: a=b,c=d\r\ntracestate: e=f\r\nBaggage: user=1;x\r\nX-Request-ID: 7\r\npriority: u=1, i\r\n" +
		"X-Stainless-Lang: js\r\nx-stainless-retry-count: 0\r\nX-B3-TraceId: 1\r\n\r\n",
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

// A partial request is never taken for a whole one, wherever it is cut.
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

const hostLine = "Host: h\r\n"

func getWith(headers string) string { return "GET /memory/n/k HTTP/1.1\r\n" + headers + "\r\n" }

func putWith(headers, body string) string {
	return "PUT /memory/n/k HTTP/1.1\r\n" + headers + "\r\n" + body
}

// These requests have a certain end, but net/http has to answer them.
func TestWhatIsForeign(t *testing.T) {
	for name, text := range map[string]string{
		"another method":            "POST /memory/n/k HTTP/1.1\r\n" + hostLine + "\r\n",
		"another path":              "GET /_botwired/status HTTP/1.1\r\n" + hostLine + "\r\n",
		"an escape in the path":     "GET /memory/n/%6b HTTP/1.1\r\n" + hostLine + "\r\n",
		"a fragment":                "GET /memory/n/k#x HTTP/1.1\r\n" + hostLine + "\r\n",
		"an escape in the query":    "GET /memory/n?limit=%31 HTTP/1.1\r\n" + hostLine + "\r\n",
		"a plus in the query":       "GET /memory/n?limit=+1 HTTP/1.1\r\n" + hostLine + "\r\n",
		"a tab":                     getWith(hostLine + "Accept:\ta\r\n"),
		"a byte that is not ASCII":  getWith(hostLine + "User-Agent: \xe9\r\n"),
		"an Origin":                 getWith(hostLine + "Origin: http://h\r\n"),
		"a Referer":                 getWith(hostLine + "Referer: http://h\r\n"),
		"a cookie":                  getWith(hostLine + "Cookie: a=b\r\n"),
		"Sec-Fetch-Site":            getWith(hostLine + "Sec-Fetch-Site: none\r\n"),
		"a condition":               putWith(hostLine+"If-Match: \"1-a\"\r\nContent-Length: 1\r\n", "1"),
		"a condition on absence":    putWith(hostLine+"If-None-Match: *\r\nContent-Length: 1\r\n", "1"),
		"a condition of a read":     getWith(hostLine + "if-none-match: \"1-a\"\r\n"),
		"cache directives":          getWith(hostLine + "Cache-Control: no-cache\r\n"),
		"a preference":              putWith(hostLine+"Prefer: wait=1\r\nContent-Length: 1\r\n", "1"),
		"two places in a trace":     getWith(hostLine + "traceparent: a\r\nTraceparent: b\r\n"),
		"two, one empty":            getWith(hostLine + "traceparent:\r\nTraceparent: b\r\n"),
		"two agents":                getWith(hostLine + "User-Agent: a\r\nUser-Agent: b\r\n"),
		"two authorizations":        getWith(hostLine + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
		"a GET with a body":         getWith(hostLine+"Content-Length: 1\r\n") + "x",
		"a PUT without length":      putWith(hostLine, ""),
		"an encoding":               putWith(hostLine+"Content-Encoding: gzip\r\nContent-Length: 1\r\n", "1"),
		"a large body":              putWith(hostLine+"Content-Length: 32769\r\n", ""),
		"a broken escape":           "GET /memory/n/a%zz HTTP/1.1\r\n" + hostLine + "\r\n",
		"a method in the extension": "PROPFIND /x HTTP/1.1\r\n" + hostLine + "\r\n",
		"a post with a body":        "POST /_botwired/flush HTTP/1.1\r\n" + hostLine + "Content-Length: 3\r\n\r\nabc",
		"an unknown header":         getWith(hostLine + "X-Mine: 1\r\n"),
		"a prefix and nothing more": getWith(hostLine + "X-Stainless-: 1\r\n"),
	} {
		var r Request
		size, v := parse([]byte(text+"rest"), &r)
		if v != foreign || size != len(text)+r.missing(text) {
			t.Errorf("%s: part %d, %d of %d bytes", name, v, size, len(text))
		}
		head := strings.Index(text, "\r\n\r\n") + 4
		for n := range head {
			if _, v := parse([]byte(text[:n]), &r); v != noHead {
				t.Errorf("%s: the first %d bytes are part %d", name, n, v)
			}
		}
	}
}

// missing returns how many bytes of a request's body are missing in its text.
func (r *Request) missing(text string) int {
	_, body, _ := strings.Cut(text, "\r\n\r\n")
	return max(0, r.length) - len(body)
}

func TestWhatIsUnusual(t *testing.T) {
	for name, text := range map[string]string{
		"a method in lower case":   "get /memory/n/k HTTP/1.1\r\n" + hostLine + "\r\n",
		"an absolute target":       "GET http://h/memory/n/k HTTP/1.1\r\n" + hostLine + "\r\n",
		"a space in the path":      "GET /memory/n /k HTTP/1.1\r\n" + hostLine + "\r\n",
		"two spaces":               "GET  /memory/n/k HTTP/1.1\r\n" + hostLine + "\r\n",
		"HTTP/1.0":                 "GET /memory/n/k HTTP/1.0\r\n" + hostLine + "\r\n",
		"HTTP/2's preface":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"an empty first line":      "\r\n" + getWith(hostLine),
		"a bare line feed":         "GET /memory/n/k HTTP/1.1\nHost: h\n\n",
		"a bare carriage return":   getWith("Host: h\r\nAccept: a\rb\r\n"),
		"no host":                  getWith(""),
		"an empty host":            getWith("Host: \r\n"),
		"two hosts":                getWith(hostLine + hostLine),
		"a host with a path":       getWith("Host: h/x\r\n"),
		"a folded header":          getWith(hostLine + "Accept: a\r\n b\r\n"),
		"a space before the colon": getWith("Host : h\r\n"),
		"no colon":                 getWith(hostLine + "Accept\r\n"),
		"close":                    getWith(hostLine + "Connection: close\r\n"),
		"an upgrade":               getWith(hostLine + "Connection: upgrade\r\n"),
		"two connections":          getWith(hostLine + "Connection: keep-alive\r\nConnection: keep-alive\r\n"),
		"two lengths":              putWith(hostLine+"Content-Length: 1\r\nContent-Length: 1\r\n", "1"),
		"a signed length":          putWith(hostLine+"Content-Length: +1\r\n", "1"),
		"a list of lengths":        putWith(hostLine+"Content-Length: 1, 1\r\n", "1"),
		"an empty length":          putWith(hostLine+"Content-Length:\r\n", ""),
		"chunks":                   putWith(hostLine+"Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"),
		"an expectation":           putWith(hostLine+"Expect: 100-continue\r\nContent-Length: 1\r\n", ""),
		"a huge length":            putWith(hostLine+"Content-Length: 99999999999999999999\r\n", ""),
		"a long line":              "GET /memory/n/" + strings.Repeat("k", maxHead),
		"a long head":              "GET /memory/n/k HTTP/1.1\r\n" + strings.Repeat("Accept: a\r\n", maxHead/10),
		"a long head, complete":    getWith(hostLine + strings.Repeat("Accept: a\r\n", maxHead/10)),
		"a length of ten digits":   putWith(hostLine+"Content-Length: 1000000000\r\n", ""),
		"a trailer":                putWith(hostLine+"Trailer: X\r\nContent-Length: 1\r\n", "1"),
		"an Upgrade":               getWith(hostLine + "Upgrade: h2c\r\n"),
		"an unnamed header":        getWith(hostLine + ": a\r\n"),
		"a tunnel":                 "CONNECT /x HTTP/1.1\r\n" + hostLine + "\r\n",
		"an asterisk":              "OPTIONS * HTTP/1.1\r\n" + hostLine + "\r\n",
		"foreign, and in chunks":   "POST /x HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: chunked\r\n\r\n",
		"a NUL":                    getWith(hostLine + "X-Mine: \x00\r\n"),
		"a space in a name":        getWith(hostLine + "X Mine: 1\r\n"),
	} {
		var r Request
		if _, v := parse([]byte(text), &r); v != unusual {
			t.Errorf("%s: part %d", name, v)
		}
	}
}

// A request with both a length and chunks has two ends, whichever header comes first.
func TestWhatIsFaulty(t *testing.T) {
	const length, chunks = "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n"
	for name, text := range map[string]string{
		"the length first": putWith(hostLine+length+chunks, "0\r\n\r\n"),
		"the chunks first": putWith(hostLine+chunks+length, "0\r\n\r\n"),
		"an odd request":   putWith(hostLine+chunks+"X-Mine: 1\r\n"+length, "0\r\n\r\n"),
	} {
		var r Request
		if _, v := parse([]byte(text), &r); v != faulty {
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
		if v == foreign {
			endsThere(t, input, size)
		}
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

// endsThere checks that net/http finds the end of a foreign request at the same place, if it accepts the
// request: only then does it get the rest of the connection.
func endsThere(t *testing.T, input []byte, size int) {
	theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(withWholeEscapes(input))))
	if err != nil {
		return // net/http closes the connection
	}
	head := bytes.Index(input, []byte("\r\n\r\n")) + 4
	if theirs.ContentLength != int64(size-head) || len(theirs.TransferEncoding) > 0 || theirs.ProtoMinor != 1 {
		t.Errorf("it ends after %d bytes, of which %d are its head; net/http says %+v", size, head, theirs)
	}
}

// BotWire takes a "%" that begins no escape literally.
func TestBrokenEscapes(t *testing.T) {
	for target, want := range map[string]string{
		"/memory/n/k": "/memory/n/k", "/a%zz": "/a%25zz", "/a%": "/a%25", "/a%4": "/a%254", "/%4g%41": "/%254g%41", "/%%%": "/%25%25%25",
		"/a?b=%zz": "/a?b=%zz", "/%?%": "/%25?%", "/%25zz": "/%25zz", "/%e2%82%ac": "/%e2%82%ac",
	} {
		const rest = " HTTP/1.1\r\nX-A: %zz\r\n\r\n%zz"
		if got := string(withWholeEscapes([]byte("GET " + target + rest))); got != "GET "+want+rest {
			t.Errorf("%s is %q", target, got)
		}
	}
}

// A Content-Length is found wherever reads cut it, in any case.
func TestLengthFinder(t *testing.T) {
	for text, want := range map[string]bool{
		"Transfer-Encoding: chunked\r\nCoNTent-LENGTH : 3": true, "\ncontent-length:": true, "x-cocontent-length": true,
		"Content-Lengt": false, "content-type: length": false, "content length": false, "Content-Leng\r\nth:": false,
	} {
		for cut := range len(text) {
			var f lengthFinder
			f.look([]byte(text[:cut]))
			f.look([]byte(text[cut:]))
			if f.found.Load() != want {
				t.Errorf("%q, cut after %d: %t", text, cut, !want)
			}
		}
	}
}

// A request with an author that is empty, or two, is not simple.
func TestAuthor(t *testing.T) {
	for headers, want := range map[string]string{
		"Botwired-Author:  a b \r\n": "a b", "botwired-author: \r\n": "", "Botwired-Author: a\r\nBotwired-Author: b\r\n": "", "Botwired-Author: \xc3\r\n": "",
	} {
		var r Request
		if _, p := parse([]byte(getWith(hostLine+headers)), &r); (p == whole) != (want != "") || p == whole && r.Author != want {
			t.Errorf("%q: part %d, author %q", headers, p, r.Author)
		}
	}
}

func TestTraceContext(t *testing.T) {
	var r Request
	if _, p := parse([]byte(getWith(hostLine+"traceparent: a\r\ntracestate: b=1\r\nTraceState: c=2\r\n")), &r); p != whole {
		t.Fatalf("part %d", p)
	}
	if string(r.TraceParent) != "a" || string(r.TraceState) != "b=1,c=2" {
		t.Errorf("%q and %q", r.TraceParent, r.TraceState)
	}
}
