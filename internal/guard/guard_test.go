package guard_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/guard"
)

// passed is what the guarded handler answers.
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
	return w
}

// checkAnswer checks the status, that a refusal explains itself in JSON, and that no CORS header is sent.
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
	for _, name := range []string{"localhost", "dash.example", "192.0.2.5", strings.ToLower(hostname)} {
		if !strings.Contains(refusal, name) {
			t.Errorf("the refusal does not name %s: %s", name, refusal)
		}
	}
}

func TestAnyHost(t *testing.T) {
	h := guard.New(guard.Options{AnyHost: true}, passed)
	checkAnswer(t, "any name", ask(h, "192.0.2.5:1", "GET", "Host", "anything.example"), http.StatusTeapot)
	checkAnswer(t, "page of that name", ask(h, "192.0.2.5:1", "GET", "Host", "a.example", "Origin", "https://a.example"), http.StatusTeapot)
	checkAnswer(t, "foreign page", ask(h, "192.0.2.5:1", "GET", "Host", "a.example", "Origin", "https://b.example"), http.StatusForbidden)
}

func TestOrigin(t *testing.T) {
	strict := guard.New(guard.Options{Origins: []string{"https://Dash.Example/", "http://dev.example:8080", "null", "nonsense"}}, passed)
	lenient := guard.New(guard.Options{LenientOrigin: true}, passed)
	const local = "127.0.0.1:2689"
	for _, c := range []struct {
		origin          string
		strict, lenient int
	}{
		{"http://127.0.0.1:2689", 418, 418},
		{"https://127.0.0.1:2689", 418, 418},
		{"HTTP://LOCALHOST:2689", 418, 418},
		{"http://[::1]:2689", 418, 418},
		{"https://dash.example", 418, 418},
		{"https://dash.example:443", 418, 418},
		{"http://dev.example:8080", 418, 418},
		{"http://127.0.0.1", 403, 418},
		{"http://127.0.0.1:3000", 403, 418},
		{"http://evil.example:2689", 403, 418},
		{"http://127.0.0.1:2689.evil.example", 403, 418},
		{"http://127.0.0.1:2689/", 403, 418},
		{"http://127.0.0.1:2689@evil.example", 403, 418},
		{"ftp://127.0.0.1:2689", 403, 418},
		{"http://dash.example", 403, 418},
		{"null", 403, 418},
		{"", 403, 418},
		{"nonsense", 403, 418},
	} {
		for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
			checkAnswer(t, "strict "+method+" "+c.origin, ask(strict, local, method, "Origin", c.origin), c.strict)
			checkAnswer(t, "lenient "+method+" "+c.origin, ask(lenient, local, method, "Origin", c.origin), c.lenient)
		}
	}
	twice := []string{"Origin", "http://127.0.0.1:2689", "Origin", "http://127.0.0.1:2689"}
	checkAnswer(t, "two origins", ask(strict, local, "GET", twice...), 403)
	checkAnswer(t, "port 80", ask(strict, local, "GET", "Host", "localhost", "Origin", "http://localhost"), 418)
	checkAnswer(t, "port 443", ask(strict, local, "GET", "Host", "localhost", "Origin", "https://localhost"), 418)
}

func TestFetchSite(t *testing.T) {
	const dash = "https://dash.example"
	for _, lenient := range []bool{false, true} {
		h := guard.New(guard.Options{Origins: []string{dash}, LenientOrigin: lenient}, passed)
		for site, status := range map[string]int{
			"same-origin": 418, "none": 418, "same-site": 403, "cross-site": 403, "": 403, "Cross-Site": 403, "new-value": 403,
		} {
			checkAnswer(t, "site "+site, ask(h, "127.0.0.1:1", "GET", "Sec-Fetch-Site", site), status)
			checkAnswer(t, "listed, site "+site, ask(h, "127.0.0.1:1", "GET", "Sec-Fetch-Site", site, "Origin", dash), 418)
		}
		twice := []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"}
		checkAnswer(t, "two sites", ask(h, "127.0.0.1:1", "GET", twice...), 403)
	}
}

func TestPreflight(t *testing.T) {
	const dash = "https://dash.example"
	o := guard.Options{Origins: []string{dash}, Token: "secret"}
	strict := guard.New(o, passed)
	o.LenientOrigin = true
	lenient := guard.New(o, passed)
	for _, c := range []struct {
		what    string
		h       http.Handler
		headers []string
		status  int
	}{
		{"listed", strict, []string{"Origin", dash, "Access-Control-Request-Method", "PUT"}, 200},
		{"foreign", strict, []string{"Origin", "https://x.example", "Access-Control-Request-Method", "PUT"}, 403},
		{"no preflight", strict, []string{"Origin", dash}, 401},
		{"foreign, lenient", lenient, []string{"Origin", "https://x.example", "Access-Control-Request-Method", "PUT"}, 200},
		{"cross-site, lenient", lenient, []string{"Origin", "https://x.example", "Access-Control-Request-Method", "PUT", "Sec-Fetch-Site", "cross-site"}, 403},
		{"no origin, lenient", lenient, []string{"Access-Control-Request-Method", "PUT"}, 401},
	} {
		w := ask(c.h, "127.0.0.1:1", "OPTIONS", c.headers...)
		checkAnswer(t, c.what, w, c.status)
		if c.status == 200 && (w.Body.String() != "OK" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8") {
			t.Errorf("%s: answered %v %s", c.what, w.Header(), w.Body)
		}
	}
}

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
		{nil, 401},
		{[]string{""}, 401},
		{[]string{"Bearer"}, 401},
		{[]string{"Bearer s3cre"}, 401},
		{[]string{"Bearer s3cretx"}, 401},
		{[]string{"Bearers3cret"}, 401},
		{[]string{"Basic s3cret"}, 401},
		{[]string{"s3cret"}, 401},
		{[]string{"Bearer s3cret", "Bearer s3cret"}, 401},
	} {
		var headers []string
		for _, v := range c.values {
			headers = append(headers, "Authorization", v)
		}
		w := ask(h, "127.0.0.1:1", "GET", headers...)
		checkAnswer(t, strings.Join(c.values, " and "), w, c.status)
		if got := w.Header().Get("WWW-Authenticate"); (got == "Bearer") != (c.status == 401) {
			t.Errorf("%q: WWW-Authenticate is %q", c.values, got)
		}
		if strings.Contains(w.Body.String(), "s3cret") {
			t.Errorf("the answer holds the token: %s", w.Body)
		}
	}
	checkAnswer(t, "exempt", ask(h, "127.0.0.1:1", "HEAD"), 418)
	checkAnswer(t, "exempt from the token alone", ask(h, "127.0.0.1:1", "HEAD", "Host", "evil.example"), 403)
	checkAnswer(t, "no token wanted", ask(guard.New(guard.Options{}, passed), "127.0.0.1:1", "GET"), 418)
}
