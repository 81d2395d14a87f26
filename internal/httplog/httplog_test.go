package httplog_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/httplog"
	"github.com/botwired/botwired/internal/pipe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnquoted(t *testing.T) {
	for text, want := range map[string]string{
		"unexpected EOF": "unexpected EOF",
		`malformed HTTP response "secret \"value\" \\": bad`: `malformed HTTP response "…": bad`,
		`bad "" and "secret" and "value`:                     `bad "…" and "…" and "value`,
		"malformed \"secret\\nvalue\x20\": \"more\"":         `malformed "…": "…"`,
	} {
		if got := httplog.Unquoted(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A handler's panic is logged with its stack, but without its value.
func TestAServersPanicIsLoggedWithoutAValue(t *testing.T) {
	var log bytes.Buffer
	server := &http.Server{
		Handler:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret-value\ngoroutine 7: secret-value") }),
		ErrorLog: httplog.New(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelDebug),
	}
	listener := pipe.Listen()
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	conn, err := listener.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn) // until the server hangs up
	_ = server.Close()
	<-served
	if text := log.String(); !strings.Contains(text, "level=ERROR msg=panic") || !strings.Contains(text, "httplog_test.go") ||
		strings.Contains(text, "secret-value") {
		t.Errorf("logged: %s", text)
	}
}

func TestOtherLinesHaveTheLevelAskedFor(t *testing.T) {
	var log bytes.Buffer
	l := httplog.New(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelWarn)
	l.Printf("http: invalid Content-Length of %q", "secret-value")
	httplog.New(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelDebug).Print("hidden")
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "Content-Length of") ||
		strings.Contains(text, "secret-value") || strings.Contains(text, "hidden") {
		t.Errorf("logged: %s", text)
	}
}
