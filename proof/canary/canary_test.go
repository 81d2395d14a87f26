package canary_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/proof/canary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A watch finds each thing that is not sealed, and nothing in what is.
func TestWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, seal.Generate(), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	n := keys.For("ns")
	key, _ := n.Key("k")
	hidden, sealed := "/memory/"+n.Name(), n.Seal("k", seal.Value{Host: "h", Seq: 1, Value: "v"})
	put := func(target, value string) string {
		body := `{"value":"` + value + `"}`
		return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", target, len(body), body)
	}
	get := func(target string, headers ...string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: h\r\n" + strings.Join(headers, "") + "\r\n"
	}
	readable := base64.RawURLEncoding.EncodeToString([]byte("some text that anybody can read once it is decoded: it is long enough to be found"))
	for name, c := range map[string]struct {
		sent  string
		finds bool
	}{
		"sealed":                  {put(hidden+"/"+key, sealed) + get(hidden+"/"+key) + get(hidden+"?limit=1000"), false},
		"not for memory":          {get("/health"), false},
		"a plain namespace":       {put("/memory/plain/k", "v") + get("/memory/plain?limit=9") + get("/memory/plain"), false},
		"cut in the middle":       {put(hidden+"/"+key, sealed)[:200], false},
		"cut in its first word":   {"G", false},
		"the namespace":           {get("/memory/ns/" + key), true},
		"the namespace, escaped":  {get("/%6demory/ns/" + key), true},
		"the namespace, listed":   {get("/memory/ns?limit=1000"), true},
		"no namespace":            {get("/memory?limit=1000"), true},
		"the key":                 {get(hidden + "/k"), true},
		"a longer key":            {get(hidden + "/kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk!"), true},
		"the value":               {put(hidden+"/"+key, "v"), true},
		"the value behind a seal": {put(hidden+"/"+key, sealed+" v"), true},
		"a value that is encoded": {put(hidden+"/"+key, "bw1."+readable), true},
		"another field":           {put(hidden+"/"+key, sealed+`","author":"a`), true},
		"a header":                {get(hidden+"/"+key, "Botwired-Author: a\r\n"), true},
		"a query":                 {get(hidden + "/" + key + "?key=k"), true},
		"a body":                  {"DELETE " + hidden + "/" + key + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nv", true},
		"the word elsewhere":      {get("/health?q=Canary-"), true},
		"the word cut off":        {"GET /health?q=canary-", true},
		"the word where plain":    {put("/memory/plain/k", "a canary-"), true},
		"no HTTP":                 {"hello\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			watch := &canary.Watch{Plain: []string{"plain"}}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
			server.Listener = watch.Listener(server.Listener)
			server.Start()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, c.sent)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			server.Close()
			if err := watch.Err(); (err != nil) != c.finds {
				t.Errorf("it finds: %v", err)
			}
			if n := watch.Count(); name == "sealed" && (n.Requests != 3 || n.Values != 1 || n.Bytes != int64(len(c.sent))) {
				t.Errorf("it has read %s", n)
			}
		})
	}
}
