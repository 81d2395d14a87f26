package fastpath

import (
	"bytes"
	"slices"
)

// harmless lists, in lower case, headers that neither the handler nor the guard looks at. SDKs and browsers' fetch
// add the first two rows by themselves, tracers the others.
var harmless = []string{ // guard 5.12
	"accept", "accept-encoding", "accept-language", "accept-charset", "sec-fetch-mode", "priority",
	"keep-alive", "from", "date", "dnt",
	"baggage", "x-request-id", "request-id", "x-correlation-id", "correlation-id",
	"correlation-context", "request-context", "x-idempotency-key", "x-trace-id", "x-span-id",
	"b3", "uber-trace-id", "sentry-trace", "newrelic", "elastic-apm-traceparent",
	"x-amzn-trace-id", "x-cloud-trace-context", "grpc-trace-bin",
}

var harmlessPrefixes = []string{"x-stainless-", "x-b3-", "x-datadog-", "x-ot-span-", "uberctx-", "ot-baggage-"}

func isHarmless(name []byte) bool {
	return slices.ContainsFunc(harmless, func(known string) bool { return is(name, known) }) ||
		slices.ContainsFunc(harmlessPrefixes, func(known string) bool { return len(name) > len(known) && is(name[:len(known)], known) })
}

// endsElsewhere reports whether a header may change where the request ends, or what follows it on the
// connection.
func endsElsewhere(name []byte) bool {
	return is(name, "expect") || is(name, "upgrade") || is(name, "trailer")
}

// withWholeEscapes escapes each "%" in a request's path that begins no escape. BotWire takes such a "%"
// literally, but net/http refuses it.
func withWholeEscapes(request []byte) []byte {
	end := bytes.IndexByte(request, '\n')
	if end < 0 {
		return request
	}
	if query := bytes.IndexByte(request[:end], '?'); query >= 0 {
		end = query
	}
	var out []byte
	done := 0
	for i := range end {
		if request[i] == '%' && !isEscape(request[i:end]) {
			out = append(append(out, request[done:i]...), "%25"...)
			done = i + 1
		}
	}
	if out == nil {
		return request
	}
	return append(out, request[done:]...)
}

func isEscape(b []byte) bool { return len(b) > 2 && isHex(b[1]) && isHex(b[2]) }

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// is reports whether b equals name, which is in lower case, ignoring case.
func is(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}
