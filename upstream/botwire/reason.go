package botwire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/httplog"
)

// explain says, for people, why a request got no answer. An error of net/http may quote bytes that
// upstream sent in place of an HTTP answer. They may contain a value, so explain leaves them out.
func explain(err error, connected bool, timeout time.Duration) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the URL is upstream's and known
	}
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		if !connected {
			return "no connection within " + timeout.String()
		}
		return "no answer within " + timeout.String()
	}
	for _, in := range []func(error) string{explainDNS, explainTLS, explainCut} {
		if text := in(err); text != "" {
			return text
		}
	}
	return httplog.Unquoted(err.Error())
}

func isTimeout(err error) bool {
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout() && !errors.As(err, new(*net.DNSError))
}

func explainDNS(err error) string {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return ""
	case dns.IsNotFound:
		return "the name " + dns.Name + " is not known (DNS: no such host)"
	}
	return "the name " + dns.Name + " cannot be looked up (DNS: " + httplog.Unquoted(dns.Err) + ")"
}

func explainTLS(err error) string {
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var otherName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var notTLS tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return "upstream's TLS certificate is not trusted: it is signed by an unknown authority"
	case errors.As(err, &otherName):
		return "upstream's TLS certificate is not trusted: it is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "upstream's TLS certificate is not trusted: it has expired or is not valid yet"
	case errors.As(err, &untrusted):
		return "upstream's TLS certificate is not trusted: " + httplog.Unquoted(untrusted.Err.Error())
	case errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch):
		return "upstream does not speak TLS: is it an http:// address?"
	case errors.As(err, &alert), strings.HasPrefix(err.Error(), "tls: "):
		return "TLS cannot be agreed on with upstream: " + httplog.Unquoted(err.Error())
	}
	return ""
}

func explainCut(err error) string {
	var op *net.OpError
	at := ""
	if errors.As(err, &op) && op.Addr != nil {
		at = " at " + op.Addr.String()
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens" + at + " (connection refused)"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "no way leads to upstream" + at + " (network or host unreachable)"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "upstream closed the connection in the middle of its answer"
	case strings.Contains(err.Error(), "server closed idle connection"), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return "upstream closed the connection without an answer"
	}
	return ""
}
