package sim

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// The kinds of failure, as docs/troubleshooting.md names them.
const (
	kindUnreachable = "nobody can be reached"
	kindCut         = "the connection is closed"
	kindSilent      = "no answer comes"
	kindUntrusted   = "TLS fails"
	kindCaptive     = "somebody else answers"
	kindGateway     = "a gateway answers with an error"
	kindUnwell      = "BotWire answers with an error"
	kindRefusing    = "BotWire refuses the request"
	kindLocked      = "the caller is not let in"
	kindThrottling  = "too many requests"
)

// failure is a way in which upstream fails.
type failure struct {
	kind   string
	name   string
	scheme string // of upstream.url
	// dial connects; if it is nil, a server answers, in the way of answer.
	dial   func(context.Context) (net.Conn, error)
	answer func(http.ResponseWriter, *http.Request)
}

var failures = append([]failure{
	{kindUnreachable, "refuses connections", "http", func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}, nil},
	{kindUnreachable, "its name is gone (DNS)", "http", func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "upstream.example", IsNotFound: true}}
	}, nil},
	{kindUnreachable, "no name server answers (DNS)", "http", func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", Name: "upstream.example", IsTimeout: true}}
	}, nil},
	{kindUnreachable, "packets are lost on the way", "http", func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil},
	{kindCut, "closes connections unread", "http", serving(func(c net.Conn) { _ = c.Close() }), nil},
	{kindCut, "closes them in place of an answer", "http", nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	{kindCut, "closes them amid an answer", "http", nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"namespace":`)
	}},
	{kindSilent, "hangs", "http", nil, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{kindSilent, "answers byte by byte, one a second", "http", serving(drip), nil},
	{kindCaptive, "switches protocols unasked (101)", "http", serving(switches), nil},
	{kindUntrusted, "TLS: a certificate of nobody", "https", certified("localhost", time.Hour), nil},
	{kindUntrusted, "TLS: an expired certificate", "https", certified("localhost", -time.Hour), nil},
	{kindUntrusted, "TLS: a certificate for another name", "https", certified("elsewhere.example", time.Hour), nil},
	{kindUntrusted, "TLS: no TLS spoken", "https", serving(func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_ = c.Close()
	}), nil},
	{kindCut, "TLS: closes amid the handshake", "https", serving(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.Close()
	}), nil},
	{kindCaptive, "200, a captive portal's page", "http", nil, page(http.StatusOK, "<html>Sign in</html>")},
	{kindCaptive, "302, to a captive portal", "http", nil, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://portal.example/", http.StatusFound)
	}},
	{kindCaptive, "511, a captive portal's page", "http", nil, page(http.StatusNetworkAuthenticationRequired, "<html>Sign in</html>")},
}, shapes()...)

// ownError is an error in BotWire's shape.
const ownError = `{"detail":"says BotWire"}`

// kindOf returns the kind of a failure with that status, from BotWire itself or from somebody on the way.
func kindOf(status int, own bool) string {
	switch {
	case status == http.StatusTooManyRequests:
		return kindThrottling
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound:
		return kindLocked
	case !own:
		return kindGateway
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return kindRefusing
	}
	return kindUnwell
}

// shapes are errors in BotWire's shape, in a gateway's, and with a page.
func shapes() (out []failure) {
	for _, status := range []int{400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504} {
		for _, shape := range [][2]string{
			{"in BotWire's shape", ownError},
			{"in a gateway's shape", `{"message":"says the gateway"}`},
			{"with a page", "<html>an error</html>"},
			{"empty", ""},
		} {
			out = append(out, failure{kindOf(status, shape[1] == ownError), fmt.Sprintf("%d %s", status, shape[0]), "http", nil, page(status, shape[1])})
		}
	}
	return out
}

func page(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "60")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// serving connects to something that does what it likes with the connection.
func serving(serve func(net.Conn)) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go serve(far)
		return near, nil
	}
}

// drip gives a right answer to a request, but slowly.
func drip(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	for _, b := range []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 34\r\n\r\n" + strings.Repeat(" ", 34)) {
		time.Sleep(time.Second)
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
	}
}

// switches answers a request with 101, and then leaves the connection open.
func switches(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"); err == nil {
		_, _ = io.Copy(io.Discard, c) // until the client closes it
	}
}

// certified connects to a server with a certificate of its own making, which ends after some
// time from when it is made.
func certified(name string, validFor time.Duration) func(context.Context) (net.Conn, error) {
	return serving(func(c net.Conn) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), DNSNames: []string{name},
			NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(validFor),
		}
		made, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		server := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{made}, PrivateKey: key}}})
		_ = server.Handshake() // the client ends it
		_ = c.Close()
	})
}
