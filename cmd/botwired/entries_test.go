package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/selfhost"
)

func onTerminal(p *cli.Program) { p.IsTerminal = func(any) bool { return true } }

func stdin(s string) func(*cli.Program) {
	return func(p *cli.Program) { p.Stdin = strings.NewReader(s) }
}

func TestGet(t *testing.T) {
	body := `{"namespace":"ns","key":"k","value":"a\nb","created_at":1.5,"updated_at":2.5}`
	d := newDaemon(t, map[string]answer{
		"GET /memory/ns/k":       {200, body},
		"GET /memory/ns/evil":    {200, `{"value":"a\tü\u200d\u00a0\u001b[2J\u009b\r\u202e"}`},
		"GET /memory/ns/gone":    {404, `{"detail":"Key not found: ns/gone"}`},
		"GET /memory/ns/page":    {404, "<html>"},
		"GET /memory/ns/path":    {404, `{"detail":"Not Found"}`},
		"DELETE /memory/ns/page": {404, "<html>"},
		"DELETE /memory/ns/path": {404, `{"detail":"Not Found"}`},
		"GET /memory/ns/none":    {200, `{"namespace":"ns"}`},
		"GET /memory/ns/html":    {200, `<html>`},
		"GET /memory/ns/down":    {503, `{"detail":"upstream is down"}`},
	})
	wantOutput(t, at(t, d, nil, "get", "ns", "k"), "a\nb")
	wantOutput(t, at(t, d, onTerminal, "get", "ns", "k"), "a\nb\n")
	wantOutput(t, at(t, d, nil, "get", "ns", "k", "--json"), body+"\n")
	wantOutput(t, at(t, d, nil, "get", "ns", "evil"), "a\tü\u200d\u00a0\x1b[2J\u009b\r\u202e")
	wantOutput(t, at(t, d, onTerminal, "get", "ns", "evil"), "a\tü\u200d\u00a0\\x1b[2J\\u009b\\r\\u202e\n")
	wantFailure(t, at(t, d, nil, "get", "ns", "gone"), cli.ExitError, "botwired: key not found: ns/gone\n")
	for _, command := range []string{"get", "delete"} { // another program knows nothing of entries
		wantFailure(t, at(t, d, nil, command, "ns", "page"), cli.ExitError, "HTTP 404 from "+d.address, "another program than botwired")
		wantFailure(t, at(t, d, nil, command, "ns", "path"), cli.ExitError, "botwired: Not Found\n")
	}
	wantFailure(t, at(t, d, nil, "get", "ns", "none"), cli.ExitError, "no value")
	wantFailure(t, at(t, d, nil, "get", "ns", "html"), cli.ExitError, "another program than botwired listens", d.address)
	wantFailure(t, at(t, d, nil, "get", "ns", "down"), cli.ExitError, "botwired: upstream is down\n")
}

// Keys that look like paths are sent unchanged.
func TestKeysAreNotCleaned(t *testing.T) {
	for key, target := range map[string]string{
		"..": "/memory/ns/..", ".": "/memory/ns/.", "...": "/memory/ns/...", "a..b": "/memory/ns/a..b",
		"_.a.2Fb": "/memory/ns/_.a.2Fb", "a\xffb": "/memory/ns/a%FFb",
	} {
		d := newDaemon(t, map[string]answer{
			"GET " + target:    {200, `{"value":"v"}`},
			"PUT " + target:    {200, `{}`},
			"DELETE " + target: {200, `{}`},
		})
		for _, args := range [][]string{{"get", "ns", key}, {"set", "ns", key, "v"}, {"delete", "ns", key}} {
			if got := at(t, d, nil, args...); got.code != cli.ExitOK {
				t.Errorf("%v: %s", args, got.stderr)
			}
		}
	}
	d := newDaemon(t, map[string]answer{"GET /memory/..?limit=100": {200, `{"keys":[]}`}})
	wantOutput(t, at(t, d, nil, "list", ".."), "KEY  BYTES  UPDATED\n")
}

func TestSet(t *testing.T) {
	answered := `{"namespace":"ns","key":"k","stored":true,"bytes":3}`
	for _, test := range []struct {
		name   string
		args   []string
		stdin  string
		body   string
		stdout string
	}{
		{"argument", []string{"<ü>"}, "ignored", `{"value":"\u003cü\u003e"}`, "stored ns/k, 3 characters\n"},
		{"empty argument", []string{""}, "ignored", `{"value":""}`, "stored ns/k, 0 characters\n"},
		{"dash", []string{"-"}, "a\n", `{"value":"a\n"}`, "stored ns/k, 2 characters\n"},
		{"no argument", nil, "b", `{"value":"b"}`, "stored ns/k, 1 character\n"},
		{"JSON", []string{"abc", "--json"}, "", `{"value":"abc"}`, answered + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDaemon(t, map[string]answer{"PUT /memory/ns/k": {200, answered}})
			wantOutput(t, at(t, d, stdin(test.stdin), append([]string{"set", "ns", "k"}, test.args...)...), test.stdout)
			if got := d.only(t).Body; got != test.body {
				t.Errorf("sent %s, want %s", got, test.body)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"PUT /memory/ns/k":    {507, `{"detail":"journal is full"}`},
		"PUT /memory/ns/msg":  {422, `{"detail":[{"loc":["body","value"],"msg":"Field required"},{"loc":["query","limit"],"msg":"Too many"}]}`},
		"PUT /memory/ns/list": {422, `{"detail":[{"type":"missing","loc":["body"]}]}`},
	})
	wantFailure(t, at(t, d, nil, "set", "ns", "k", "v"), cli.ExitError, "botwired: journal is full")
	wantFailure(t, at(t, d, nil, "set", "ns", "list", "v"), cli.ExitError, `[{"type":"missing","loc":["body"]}]`)
	wantFailure(t, at(t, d, nil, "set", "ns", "msg", "v"), cli.ExitError, "botwired: value: Field required; limit: Too many\n")
	wantFailure(t, at(t, d, stdin("\xff"), "set", "ns", "k"), cli.ExitError, "not UTF-8")
	wantFailure(t, at(t, d, stdin(strings.Repeat("x", 4<<20+1)), "set", "ns", "k"), cli.ExitError, "longer than")
	broken := func(p *cli.Program) { p.Stdin, _ = io.Pipe(); p.Stdin.(*io.PipeReader).Close() }
	wantFailure(t, at(t, d, broken, "set", "ns", "k"), cli.ExitError, "reading the value from standard input")
}

// BotWire sees a name with a slash as another path. The error must say that the name is invalid, not
// that the key is missing.
func TestInvalidNames(t *testing.T) {
	answers := map[string]answer{"PUT /memory/ns/k": {404, `{"detail":"Not Found"}`}}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		answers[method+" /memory/ns/a%FFb"] = answer{404, `{"detail":"Not Found"}`}
		answers[method+" /memory/n%2Fs/k"] = answer{404, `{"detail":"Not Found"}`}
	}
	d := newDaemon(t, answers)
	for _, command := range [][]string{{"get"}, {"set"}, {"delete"}} {
		wantFailure(t, at(t, d, nil, append(command, "ns", "a\xffb")...), cli.ExitError, "botwired: Invalid key. Use 1-128", "\n")
		wantFailure(t, at(t, d, nil, append(command, "n/s", "k")...), cli.ExitError, "botwired: Invalid namespace. Use", "\n")
	}
	wantFailure(t, at(t, d, nil, "set", "ns", "k", "v"), cli.ExitError, "botwired: Not Found\n")
	wantFailure(t, at(t, d, nil, "list", "n/s"), cli.ExitError, "botwired: Invalid namespace. Use", "\n")
}

func TestDelete(t *testing.T) {
	body := `{"deleted":true,"namespace":"ns","key":"k"}`
	d := newDaemon(t, map[string]answer{
		"DELETE /memory/ns/k":    {200, body},
		"DELETE /memory/ns/gone": {404, `{"detail":"Key not found: ns/gone"}`},
	})
	wantOutput(t, at(t, d, nil, "delete", "ns", "k"), "deleted ns/k\n")
	wantOutput(t, at(t, d, nil, "delete", "ns", "k", "--json"), body+"\n")
	wantFailure(t, at(t, d, nil, "delete", "ns", "gone"), cli.ExitError, "key not found: ns/gone")
	assuming := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Botwired-Write", "pending; assumed; seq=1")
		_, _ = io.WriteString(w, body)
	})))
	defer assuming.Close()
	wantOutput(t, at(t, &daemon{address: assuming.Listener.Addr().String()}, nil, "delete", "ns", "k"),
		"deleted ns/k; upstream could not be asked whether there was such an entry\n")
}

func TestList(t *testing.T) {
	body := `{"namespace":"ns","count":2,"keys":[{"key":"..","bytes":12345,"updated_at":1700000000.25},{"key":"b","bytes":3,"updated_at":1700000000}]}`
	d := newDaemon(t, map[string]answer{
		"GET /memory/ns?limit=100":  {200, body},
		"GET /memory/ns?limit=1":    {200, `{"keys":[{"key":"x","bytes":1,"updated_at":0}]}`},
		"GET /memory/bad?limit=100": {400, `{"detail":"Invalid namespace"}`},
	})
	wantOutput(t, at(t, d, nil, "list", "ns"), ""+
		"KEY  BYTES  UPDATED\n"+
		"..   12345  2023-11-14T22:13:20Z\n"+
		"b    3      2023-11-14T22:13:20Z\n")
	wantOutput(t, at(t, d, nil, "list", "ns", "--json"), body+"\n")
	wantOutput(t, at(t, d, nil, "list", "ns", "--limit", "1"), "KEY  BYTES  UPDATED\nx    1      1970-01-01T00:00:00Z\n")
	wantFailure(t, at(t, d, nil, "list", "bad"), cli.ExitError, "Invalid namespace")
}

// A list that may be incomplete says so, on stderr.
func TestListTellsOfMore(t *testing.T) {
	keys := func(n int) answer {
		return answer{200, `{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k"},`, n), ",") + `]}`}
	}
	d := newDaemon(t, map[string]answer{
		"GET /memory/few?limit=100":  keys(99),
		"GET /memory/many?limit=100": keys(100), "GET /memory/many?limit=1000": keys(1000),
	})
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"few"}, ""},
		{[]string{"many"}, "these are the newest 100 keys, and there may be more: --limit 1000 lists as many\n"},
		{[]string{"many", "--limit", "100"}, ""},
		{[]string{"many", "--limit", "1000"}, "these are the newest 1000 keys, and there may be more: BotWire lists no others\n"},
	} {
		for _, args := range [][]string{test.args, append(test.args, "--json")} {
			if got := at(t, d, nil, append([]string{"list"}, args...)...); got.stderr != test.says || got.code != cli.ExitOK {
				t.Errorf("%v: exit code %d, stderr %q", args, got.code, got.stderr)
			}
		}
	}
}

func TestUnixSocketAndToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newSocketDaemon(t, map[string]answer{"GET /memory/ns/k": {200, `{"value":"v"}`}})
	wantOutput(t, at(t, d, nil, "get", "ns", "k", "--auth.token_file", token), "v")
	want := asked{Target: "GET /memory/ns/k", Host: "localhost", Authorization: "Bearer abc"}
	if diff := cmp.Diff(want, d.only(t)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestUnreachable(t *testing.T) {
	closed := &daemon{address: closedAddress(t)}
	for _, args := range [][]string{{"status"}, {"flush"}, {"pending"}, {"dead-letters"}, {"dead-letters", "retry", "1", "2"},
		{"dead-letters", "delete", "1"}, {"dead-letters", "delete", "--all", "--yes"}, {"dead-letters", "show", "1"}, {"dead-letters", "show", "--all"},
		{"get", "ns", "k"}, {"set", "ns", "k", "v"}, {"delete", "ns", "k"}, {"list", "ns"}} {
		wantFailure(t, at(t, closed, nil, args...), cli.ExitError,
			"cannot reach botwired at "+closed.address+" (setting listen, flag --listen)")
	}
	socket := &daemon{address: "unix://" + filepath.Join(t.TempDir(), "none")}
	wantFailure(t, at(t, socket, nil, "status"), cli.ExitError, "cannot reach botwired at "+socket.address)
}

// Network errors name no system calls, and say what to do.
func TestTextsOfTheNetwork(t *testing.T) {
	speaks := func(said string) *daemon {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, said)
				conn.Close()
			}
		}()
		return &daemon{address: listener.Addr().String()}
	}
	for name, test := range map[string]struct {
		at   *daemon
		says string
	}{
		"nobody":          {&daemon{address: closedAddress(t)}, `nobody listens there: start the daemon with "botwired serve", or say with --listen where it is`},
		"no socket":       {&daemon{address: "unix://" + filepath.Join(t.TempDir(), "s")}, `nobody listens there: start the daemon with "botwired serve"`},
		"says nothing":    {speaks(""), "the connection was closed before the answer came: "},
		"no HTTP":         {speaks("SSH-2.0-x\r\n"), "another program than botwired listens there: its answer is not HTTP"},
		"half an answer":  {speaks("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "the connection was closed before the answer came: "},
		"no such address": {&daemon{address: "nosuch.invalid:1"}, "auth.token_file"},
	} {
		got := at(t, test.at, nil, "status")
		wantFailure(t, got, cli.ExitError, test.says)
		for _, call := range []string{"dial", "connect:", "EOF", "read tcp", "lookup", "malformed"} {
			if strings.Contains(got.stderr, call) {
				t.Errorf("%s: %q says %q", name, got.stderr, call)
			}
		}
	}
}

// The error for a 401 names the setting, not HTTP headers. A 401 from upstream is shown unchanged.
func TestTextsAboutTheToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	door := guard.New(guard.Options{Token: "abc"}, http.NotFoundHandler())
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/memory/up/stream" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"detail":"upstream wants a key"}`)
			return
		}
		door.ServeHTTP(w, r)
	})))
	defer server.Close()
	d := &daemon{address: server.Listener.Addr().String()}
	for _, args := range [][]string{{"status"}, {"get", "ns", "k"}, {"flush"}} {
		wantFailure(t, at(t, d, nil, args...), cli.ExitError, "a token is needed (HTTP 401): ", "--auth-token-file or BOTWIRED_AUTH_TOKEN_FILE\n")
		wantFailure(t, at(t, d, nil, append(args, "--auth-token-file", token)...), cli.ExitError,
			"botwired at "+d.address, " does not accept the token in "+token+" (HTTP 401): --auth-token-file")
	}
	wantFailure(t, at(t, d, nil, "get", "up", "stream"), cli.ExitError, "botwired: upstream does not let this in: look at upstream.url and upstream.headers (HTTP 401: upstream wants a key)\n")
}

// The commands recognize a memory service where they expect a daemon.
func TestTextsAboutAnotherProgram(t *testing.T) {
	service, err := selfhost.Open(t.Context(), selfhost.Options{Path: filepath.Join(t.TempDir(), "m.db")})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(ofThisAccount(t, service.Handler()))
	t.Cleanup(func() {
		server.Close()
		service.Close()
	})
	d := &daemon{address: server.Listener.Addr().String()}
	for _, args := range [][]string{{"status"}, {"status", "--ready"}, {"flush"}, {"pending"}, {"dead-letters"}, {"dead-letters", "retry", "--all", "--yes"}} {
		wantFailure(t, at(t, d, nil, args...), cli.ExitError, "another program than botwired listens at "+d.address, "such as botwired selfhost", "--listen")
	}
}

func TestRedirectsAndStrangersAreNotFollowed(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status":      {http.StatusFound, ""},
		"GET /elsewhere":             {200, `{}`},
		"GET /memory/ns?limit=100":   {502, "<html>\x1b[31mBad\nGateway"},
		"GET /memory/null?limit=100": {500, `{"detail":null}`},
		"GET /memory/evil?limit=100": {500, `{"detail":"a\u001b[31m\nb"}`},
	})
	wantFailure(t, at(t, d, nil, "status"), cli.ExitError, "HTTP 302", d.address)
	wantFailure(t, at(t, d, nil, "list", "ns"), cli.ExitError, "HTTP 502", "another program than botwired listens")
	wantFailure(t, at(t, d, nil, "list", "null"), cli.ExitError, "HTTP 500", "another program than botwired listens")
	got := at(t, d, nil, "list", "evil")
	wantFailure(t, got, cli.ExitError, "(HTTP 500)")
	if strings.Contains(got.stderr, "\x1b") {
		t.Errorf("a control sequence reaches the terminal: %q", got.stderr)
	}
}

func TestWildcardListenersAreFoundOnLoopback(t *testing.T) {
	for listen, want := range map[string]string{
		":1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1",
		"127.0.0.2:1": "127.0.0.2:1", "[::1]:1": "[::1]:1", "localhost:1": "localhost:1",
	} {
		if got := api.Host(listen); got != want {
			t.Errorf("dialable(%s) = %s, want %s", listen, got, want)
		}
	}
}

// What a shell writes, deletes and undoes is by BOTWIRED_AUTHOR, as what its agents write.
func TestTheAuthorOfCommands(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"PUT /memory/ns/k":    {200, `{"namespace":"ns","key":"k","stored":true,"bytes":1}`},
		"DELETE /memory/ns/k": {200, `{"namespace":"ns","key":"k","deleted":true}`},
	})
	for environ, want := range map[string]string{"BOTWIRED_AUTHOR=night\nshift": "nightshift", "BOTWIRED_AUTHOR=": "", "OTHER=x": ""} {
		for _, args := range [][]string{{"set", "ns", "k", "v"}, {"delete", "ns", "k"}} {
			got := at(t, d, func(p *cli.Program) { p.Environ = append(p.Environ, environ) }, args...)
			if author := d.asked[len(d.asked)-1].Author; got.code != 0 || author != want {
				t.Errorf("%s %s: by %q, want %q: %+v", environ, args[0], author, want, got)
			}
		}
	}
}
