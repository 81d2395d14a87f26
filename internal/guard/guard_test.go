package guard_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/guard"
)

// passed is the guarded handler's answer.
var passed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

// ask makes a request that arrived on local. Headers are name, value pairs; Host is one of them.
func ask(h http.Handler, local, method string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/memory/ns/k", nil)
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		panic(err)
	}
	r = r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, net.Addr(addr)))
	r.Host = "127.0.0.1:2689"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	g, ok := h.(*guard.Guard)
	if ok && method != http.MethodHead && g.Admits(r) != (w.Code == http.StatusTeapot) {
		panic(fmt.Sprintf("%s %q is answered with %d, and Admits is %t", method, headers, w.Code, g.Admits(r)))
	}
	return w
}

// checkAnswer checks the status, that a refusal explains itself in JSON, and that there is no CORS header.
func checkAnswer(t *testing.T, what string, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Errorf("%s: got %d %s, want %d", what, w.Code, w.Body, status)
	}
	var body struct{ Detail string }
	if w.Code >= 400 && w.Code != http.StatusTeapot {
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Detail == "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: refusal is %v %s", what, w.Header(), w.Body)
		}
	}
	for name := range w.Header() {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: answered with %s", what, name)
		}
	}
}

func TestHost(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	h := guard.New(guard.Options{Hosts: []string{"Dash.Example", "[2001:db8::7]"}}, passed)
	const local = "192.0.2.5:2689"
	for host, accepted := range map[string]bool{
		"localhost": true, "LocalHost:1": true, "localhost.": true, "localhost.:2689": true,
		"127.0.0.1": true, "127.0.0.1:2689": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:2689": true,
		"[::ffff:127.0.0.1]": true, "[0:0:0:0:0:0:0:1]:5": true,
		"192.0.2.5": true, "192.0.2.5:80": true, "[::ffff:192.0.2.5]:1": true,
		hostname: true, strings.ToUpper(hostname) + ":2689": true,
		"dash.example": true, "DASH.example.:443": true, "[2001:db8::7]": true, "[2001:DB8:0::7]:9": true,

		"": false, "evil.example": false, "192.0.2.6": false, "localhost.evil.example": false, "evil.localhost": false,
		"127.0.0.1.evil.example": false, "127.1": false, "0x7f000001": false, "2130706433": false, "0.0.0.0": false,
		"::1": false, "[::1": false, "::1]": false, "[localhost]": false, "[127.0.0.1]": false, "[::]": false,
		"localhost:": false, "localhost:x": false, "localhost:99999": false, "localhost:1:2": false, "localhost..": false,
		"user@localhost": false, "localhost/": false, "localhost ": false, "localhost,evil.example": false, "[::1]x": false,
	} {
		status := http.StatusForbidden
		if accepted {
			status = http.StatusTeapot
		}
		for _, method := range []string{"GET", "PUT", "OPTIONS"} {
			checkAnswer(t, method+" "+host, ask(h, local, method, "Host", host), status)
		}
	}
	refusal := ask(h, local, "GET", "Host", "evil.example").Body.String()
	for _, name := range []string{"localhost", "loopback addresses", "dash.example", "192.0.2.5", strings.ToLower(hostname), "allowed_hosts"} {
		if !strings.Contains(refusal, name) {
			t.Errorf("the refusal does not name %s: %s", name, refusal)
		}
	}
}

// A listener on all interfaces accepts the address that a caller has connected to. A refusal names it, even
// to a caller on loopback, and names no other address of the machine.
func TestRefusedHostIsToldWhatIsTrue(t *testing.T) {
	h := guard.New(guard.Options{}, passed)
	for local, wants := range map[string]string{
		"127.0.0.1:2689": "Accepted are localhost, loopback addresses, the address that the caller connected to, and the names in the setting allowed_hosts.",
		"192.0.2.5:2689": "192.0.2.5",
	} {
		w := ask(h, local, "GET", "Host", "evil.example")
		checkAnswer(t, local, w, 403)
		if !strings.Contains(w.Body.String(), wants) {
			t.Errorf("to %s: the refusal does not say %q: %s", local, wants, w.Body)
		}
	}
}

// On loopback the hostname is not accepted: a resolver on the network answers for it.
func TestHostnameOnLoopback(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	h := guard.New(guard.Options{}, passed)
	checkAnswer(t, "hostname", ask(h, "127.0.0.1:2689", "GET", "Host", hostname+":2689"), http.StatusForbidden)
	checkAnswer(t, "its page", ask(h, "127.0.0.1:2689", "GET", append([]string{"Host", "localhost:2689",
		"Origin", "http://" + hostname + ":2689"}, browser...)...), http.StatusForbidden)
	h = guard.New(guard.Options{Hosts: []string{hostname}}, passed)
	checkAnswer(t, "allowed", ask(h, "127.0.0.1:2689", "GET", "Host", hostname), http.StatusTeapot)
}

func TestAnyHost(t *testing.T) {
	h := guard.New(guard.Options{AnyHost: true}, passed)
	checkAnswer(t, "any name", ask(h, "192.0.2.5:1", "GET", "Host", "anything.example"), http.StatusTeapot)
	checkAnswer(t, "page of that name", ask(h, "192.0.2.5:1", "GET", "Host", "a.example", "Origin", "https://a.example"), http.StatusTeapot)
	checkAnswer(t, "foreign page", ask(h, "192.0.2.5:1", "GET", "Host", "a.example", "Origin", "https://b.example", "Accept", "*/*"), http.StatusForbidden)
}

// methods are used to test the rules for pages.
var methods = []string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"}

// browser holds the headers of every page's request.
var browser = []string{"User-Agent", "Mozilla/5.0", "Accept", "*/*", "Accept-Encoding", "gzip, br", "Sec-Fetch-Mode", "cors"}

func TestOrigin(t *testing.T) {
	h := guard.New(guard.Options{Origins: []string{
		"https://Dash.Example/", "http://dev.example:8080",
		"Chrome-Extension://AbcDef", "moz-extension://0a1b-2c", "tauri://localhost", "app://-", "app://.", "x-1.0+a://h:9",
		"null", "nonsense", "*", "https://*", "://x", "file://", "file:///",
	}}, passed)
	for origin, status := range map[string]int{
		"http://127.0.0.1:2689":    418,
		"https://127.0.0.1:2689":   418,
		"HTTP://LOCALHOST:2689":    418,
		"http://[::1]:2689":        418,
		"https://dash.example":     418,
		"https://dash.example:443": 418,
		"http://dev.example:8080":  418,

		"chrome-extension://abcdef": 418,
		"CHROME-EXTENSION://ABCDEF": 418,
		"moz-extension://0a1b-2c":   418,
		"tauri://localhost":         418,
		"app://-":                   418,
		"app://.":                   418,
		"x-1.0+a://h:9":             418,

		"http://127.0.0.1":                    403,
		"http://127.0.0.1:3000":               403,
		"http://evil.example:2689":            403,
		"http://127.0.0.1:2689.evil.example":  403,
		"http://127.0.0.1:2689/":              403,
		"http://127.0.0.1:2689@evil.example":  403,
		"ftp://127.0.0.1:2689":                403,
		"http://dash.example":                 403,
		"https://dash.example:8443":           403,
		"https://dash.example.evil.example":   403,
		"https://x.dash.example":              403,
		"chrome-extension://abcde":            403,
		"chrome-extension://abcdefg":          403,
		"chrome-extension://abcdef/":          403,
		"chrome-extension://abcdef:80":        403,
		"chrome-extension://":                 403,
		"moz-extension://abcdef":              403,
		"http://abcdef":                       403,
		"tauri://127.0.0.1:2689":              403,
		"tauri://localhost.":                  403,
		"tauri://localhost:2689":              403,
		"app://":                              403,
		"app:-":                               403,
		"x-1.0+a://h":                         403,
		"http://localhost, http://localhost":  403,
		"https://dash.example https://a.test": 403,
		"https://*":                           403,
		"https://anything.example":            403,
		"file://":                             403,
		"null":                                403,
		"NULL":                                403,
		"*":                                   403,
		"":                                    403,
		"nonsense":                            403,
	} {
		for _, method := range methods {
			checkAnswer(t, method+" "+origin, ask(h, "127.0.0.1:2689", method, append(browser, "Origin", origin)...), status)
		}
	}
	twice := append(browser, "Origin", "http://127.0.0.1:2689", "Origin", "http://127.0.0.1:2689")
	checkAnswer(t, "two origins", ask(h, "127.0.0.1:2689", "GET", twice...), 403)
	checkAnswer(t, "port 80", ask(h, "127.0.0.1:2689", "GET", append(browser, "Host", "localhost", "Origin", "http://localhost")...), 418)
	checkAnswer(t, "port 443", ask(h, "127.0.0.1:2689", "GET", append(browser, "Host", "localhost", "Origin", "https://localhost")...), 418)
	checkAnswer(t, "no page's scheme", ask(h, "127.0.0.1:2689", "GET", append(browser, "Host", "localhost", "Origin", "evil://localhost")...), 403)
}

// Each header that a browser adds is enough to tell a page's request from a program's, even if the page has
// emptied it.
func TestForeignOrigin(t *testing.T) {
	h := guard.New(guard.Options{}, passed)
	names := []string{
		"User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Referer", "Cookie", "DNT", "Upgrade-Insecure-Requests",
		"Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-User", "Sec-CH-UA", "Sec-GPC", "Sec-Purpose",
		"Sec-WebSocket-Key", "Sec-WebSocket-Version", "sec-websocket-extensions",
	}
	for _, origin := range []string{"http://example.com", "https://evil.example", "null", "", "http://127.0.0.1:1", "chrome-extension://abc"} {
		for _, method := range methods {
			program := []string{
				"Origin", origin, "Content-Type", "application/json", "Content-Length", "2", "Connection", "close",
				"Authorization", "Bearer x", "Cache-Control", "no-cache", "X-Sec-Fetch-Site", "none",
			}
			checkAnswer(t, "program "+method+" "+origin, ask(h, "127.0.0.1:2689", method, program...), 418)
			for _, name := range names {
				for _, value := range []string{"none", ""} {
					what := method + " " + origin + " with " + name + ": " + value
					checkAnswer(t, what, ask(h, "127.0.0.1:2689", method, append(program, name, value)...), 403)
				}
			}
		}
	}
	// Two origins are always foreign.
	twice := []string{"Origin", "http://127.0.0.1:2689", "Origin", "http://127.0.0.1:2689"}
	checkAnswer(t, "program with two origins", ask(h, "127.0.0.1:2689", "PUT", twice...), 418)
	checkAnswer(t, "program with a foreign host", ask(h, "127.0.0.1:2689", "GET", "Origin", "http://example.com", "Host", "evil.example"), 403)

	page := append([]string{"Origin", "http://example.com"}, browser...)
	if refusal := ask(h, "127.0.0.1:2689", "POST", page...).Body.String(); !strings.Contains(refusal, "setting allowed_origins") {
		t.Errorf("the refusal does not name the setting: %s", refusal)
	}
}

// Requests that Chrome and Firefox send for a foreign page are refused.
func TestBrowserRequests(t *testing.T) {
	h := guard.New(guard.Options{}, passed)
	const page = "https://evil.example"
	for _, c := range []struct {
		what, method string
		headers      []string
	}{
		{"fetch", "PUT", append(browser, "Origin", page, "Sec-Fetch-Site", "cross-site", "Content-Type", "application/json")},
		{"fetch with emptied headers", "POST", []string{"Origin", page, "User-Agent", "", "Accept", "", "Accept-Encoding", "gzip"}},
		{"fetch of a browser without Sec-Fetch", "DELETE", []string{"Origin", page, "User-Agent", "Mozilla/5.0", "Accept", "*/*"}},
		{"preflight", "OPTIONS", append(browser, "Origin", page, "Access-Control-Request-Method", "PUT")},
		{"form of a sandboxed page", "POST", append(browser, "Origin", "null", "Upgrade-Insecure-Requests", "1")},
		{"image", "GET", append(browser, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image")},
		{"WebSocket", "GET", []string{
			"Origin", page, "Connection", "Upgrade", "Upgrade", "websocket", "User-Agent", "Mozilla/5.0",
			"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw==",
		}},
	} {
		checkAnswer(t, c.what, ask(h, "127.0.0.1:2689", c.method, c.headers...), 403)
	}
}

func TestFetchSite(t *testing.T) {
	const dash = "https://dash.example"
	h := guard.New(guard.Options{Origins: []string{dash}}, passed)
	for site, status := range map[string]int{
		"same-origin": 418, "none": 418, "same-site": 403, "cross-site": 403, "": 403, "Cross-Site": 403, "new-value": 403,
	} {
		for _, method := range methods {
			checkAnswer(t, method+" site "+site, ask(h, "127.0.0.1:1", method, "Sec-Fetch-Site", site), status)
			checkAnswer(t, method+" own, site "+site, ask(h, "127.0.0.1:1", method, "Sec-Fetch-Site", site, "Origin", "http://127.0.0.1:2689"), status)
			checkAnswer(t, method+" listed, site "+site, ask(h, "127.0.0.1:1", method, "Sec-Fetch-Site", site, "Origin", dash), 418)
			checkAnswer(t, method+" foreign, site "+site, ask(h, "127.0.0.1:1", method, "Sec-Fetch-Site", site, "Origin", "https://x.example"), 403)
		}
	}
	twice := []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"}
	checkAnswer(t, "two sites", ask(h, "127.0.0.1:1", "GET", twice...), 403)
}

// A link on another site leads only to requests that Linked allows. Such a request must still name the
// listener and have the token.
func TestLinked(t *testing.T) {
	linked := func(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Dest") == "document" }
	h := guard.New(guard.Options{Linked: linked}, passed)
	link := append([]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"}, browser...)
	checkAnswer(t, "link", ask(h, "127.0.0.1:2689", "GET", link...), 418)
	checkAnswer(t, "link of the same site", ask(h, "127.0.0.1:2689", "GET", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Dest", "document"), 418)
	checkAnswer(t, "frame", ask(h, "127.0.0.1:2689", "GET", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"), 403)
	for _, method := range methods[1:] {
		checkAnswer(t, method, ask(h, "127.0.0.1:2689", method, link...), 403)
	}
	for _, origin := range []string{"null", "https://evil.example"} {
		checkAnswer(t, "with the Origin "+origin, ask(h, "127.0.0.1:2689", "GET", append(link, "Origin", origin)...), 403)
	}
	checkAnswer(t, "another name", ask(h, "127.0.0.1:2689", "GET", append(link, "Host", "evil.example")...), 403)
	guarded := guard.New(guard.Options{Linked: linked, Token: "s3cret"}, passed)
	checkAnswer(t, "without the token", ask(guarded, "127.0.0.1:2689", "GET", link...), 401)
	checkAnswer(t, "with the token", ask(guarded, "127.0.0.1:2689", "GET", append(link, "Authorization", basic("x:s3cret"))...), 418)
}

func TestPreflight(t *testing.T) {
	const dash, extension, foreign = "https://dash.example", "chrome-extension://abc", "http://example.com"
	h := guard.New(guard.Options{Origins: []string{dash, extension}, Token: "secret"}, passed)
	preflight := func(origin string, more ...string) []string {
		return append([]string{"Origin", origin, "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "content-type"}, more...)
	}
	for _, c := range []struct {
		what, method string
		headers      []string
		status       int
	}{
		{"program", "OPTIONS", preflight(foreign), 200},
		{"program, null", "OPTIONS", preflight("null"), 200},
		{"program, own", "OPTIONS", preflight("http://127.0.0.1:2689"), 200},
		{"listed", "OPTIONS", preflight(dash, browser...), 200},
		{"extension", "OPTIONS", preflight(extension, browser...), 200},
		{"page", "OPTIONS", preflight(foreign, browser...), 403},
		{"page, Accept only", "OPTIONS", preflight(foreign, "Accept", "*/*"), 403},
		{"page, cross-site", "OPTIONS", preflight(foreign, "Sec-Fetch-Site", "cross-site"), 403},
		{"program, no preflight", "OPTIONS", []string{"Origin", foreign}, 401},
		{"program, another method", "GET", preflight(foreign), 401},
		{"listed, no preflight", "OPTIONS", []string{"Origin", dash}, 401},
		{"no origin", "OPTIONS", []string{"Access-Control-Request-Method", "PUT"}, 401},
	} {
		w := ask(h, "127.0.0.1:1", c.method, c.headers...)
		checkAnswer(t, c.what, w, c.status)
		if c.status == 200 && (w.Body.String() != "OK" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8") {
			t.Errorf("%s: answered %v %s", c.what, w.Header(), w.Body)
		}
	}
}

// basic returns the header that HTTP clients make from a user and a password in a URL.
func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

func TestToken(t *testing.T) {
	h := guard.New(guard.Options{
		Token:       "s3cret",
		TokenExempt: func(r *http.Request) bool { return r.Method == "HEAD" },
	}, passed)
	for _, c := range []struct {
		values []string
		status int
	}{
		{[]string{"Bearer s3cret"}, 418},
		{[]string{"bearer   s3cret"}, 418},
		{[]string{"BEARER s3cret"}, 418},
		{[]string{basic("x:s3cret")}, 418},
		{[]string{basic(":s3cret")}, 418},
		{[]string{strings.Replace(basic("x:s3cret"), "Basic ", "bAsIc   ", 1)}, 418},
		{nil, 401},
		{[]string{""}, 401},
		{[]string{"Bearer"}, 401},
		{[]string{"Bearer s3cre"}, 401},
		{[]string{"Bearer s3cretx"}, 401},
		{[]string{"Bearers3cret"}, 401},
		{[]string{"Basic s3cret"}, 401},
		{[]string{"s3cret"}, 401},
		{[]string{"Bearer s3cret", "Bearer s3cret"}, 401},
		{[]string{"Basic"}, 401},
		{[]string{basic("")}, 401},
		{[]string{basic(":")}, 401},
		{[]string{basic("s3cret")}, 401},
		{[]string{basic("s3cret:")}, 401},
		{[]string{basic("s3cret:x")}, 401},
		{[]string{basic("x:s3cre")}, 401},
		{[]string{basic("x:s3cretx")}, 401},
		{[]string{basic("x:y:s3cret")}, 401}, // the password is everything after the first colon
		{[]string{basic("x:s3cret") + "!"}, 401},
		{[]string{basic("x:s3cret"), basic("x:s3cret")}, 401},
		{[]string{strings.Replace(basic("x:s3cret"), "Basic", "Bearer", 1)}, 401},
	} {
		var headers []string
		for _, v := range c.values {
			headers = append(headers, "Authorization", v)
		}
		w := ask(h, "127.0.0.1:1", "GET", headers...)
		checkAnswer(t, strings.Join(c.values, " and "), w, c.status)
		wanted := []string(nil)
		if c.status == 401 {
			wanted = []string{`Basic realm="botwired"`, `Bearer realm="botwired"`}
		}
		if got := w.Header().Values("WWW-Authenticate"); !slices.Equal(got, wanted) {
			t.Errorf("%q: WWW-Authenticate is %q, want %q", c.values, got, wanted)
		}
		if strings.Contains(w.Body.String(), "s3cret") {
			t.Errorf("the answer holds the token: %s", w.Body)
		}
	}
	checkAnswer(t, "exempt", ask(h, "127.0.0.1:1", "HEAD"), 418)
	if h.Admits(httptest.NewRequest(http.MethodHead, "http://localhost/memory/ns/k", nil)) {
		t.Error("what is exempt is admitted for what is not")
	}
	checkAnswer(t, "exempt from the token alone", ask(h, "127.0.0.1:1", "HEAD", "Host", "evil.example"), 403)
	checkAnswer(t, "no token wanted", ask(guard.New(guard.Options{}, passed), "127.0.0.1:1", "GET"), 418)
}

// Trust: a browser that was given the password once adds it to every request to the listener, from any page.
// That lets in no page of another site. Such a page's request gets no challenge, which would ask the user.
func TestStoredPasswordLetsInNoPage(t *testing.T) {
	h := guard.New(guard.Options{Token: "s3cret"}, passed)
	const page = "https://evil.example"
	for what, headers := range map[string][]string{
		"a name that was pointed here": append([]string{"Host", "evil.example:2689"}, browser...),
		"its own page under that name": append([]string{"Host", "evil.example:2689", "Origin", "http://evil.example:2689", "Sec-Fetch-Site", "same-origin"}, browser...),
		"fetch":                        append([]string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, browser...),
		"fetch of an old browser":      {"Origin", page, "User-Agent", "Mozilla/5.0", "Accept", "*/*"},
		"preflight":                    append([]string{"Origin", page, "Access-Control-Request-Method", "PUT"}, browser...),
		"form of a sandboxed page":     append([]string{"Origin", "null"}, browser...),
		"another port of this machine": append([]string{"Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site"}, browser...),
		"image, frame or script":       append([]string{"Sec-Fetch-Site", "cross-site"}, browser...),
	} {
		for _, method := range methods {
			for _, credential := range [][]string{nil, {"Authorization", basic("x:s3cret")}} {
				w := ask(h, "127.0.0.1:2689", method, slices.Concat(headers, credential)...)
				checkAnswer(t, fmt.Sprintf("%s by %s with %q", method, what, credential), w, 403)
				if got := w.Header().Values("WWW-Authenticate"); len(got) > 0 {
					t.Errorf("%s by %s is asked for a password: %q", method, what, got)
				}
			}
		}
	}
}

// A person with curl reads a refusal without HTML escapes.
func TestRefusalReadsAsWritten(t *testing.T) {
	h := guard.New(guard.Options{Token: "s3cret"}, http.NotFoundHandler())
	if said := ask(h, "127.0.0.1:1", "GET").Body.String(); !strings.Contains(said, "Bearer <token>") {
		t.Errorf("a person reads %s", said)
	}
}
