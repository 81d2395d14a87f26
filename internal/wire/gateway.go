package wire

import "net/http"

// own begins the names of headers that say the same as those without it. Gateways change, drop or act upon headers
// that HTTP defines, and leave alone those that they do not know.
const own = "Botwired-"

// OwnETag is the header of an answer that has its ETag, whatever a gateway does to that one.
const OwnETag = own + "Etag"

// OwnIdempotencyKey is the header of a request that counts as its Idempotency-Key.
const OwnIdempotencyKey = own + "Idempotency-Key"

// Given returns the values of a request's header If-Match, If-None-Match or Idempotency-Key: those of the header with
// Botwired- before the name, if there is one.
func Given(h http.Header, name string) []string {
	if values, ok := h[own+name]; ok { // guard 5.26
		return values
	}
	return h[name]
}

// Tag returns the tag of an answer, or "" if it has none.
func Tag(h http.Header) string {
	if tag := h.Get(OwnETag); tag != "" {
		return tag
	}
	return h.Get("ETag")
}

// SetGiven sets a header that Given returns, in both of its forms.
func SetGiven(h http.Header, name, value string) {
	h.Set(name, value)
	h.Set(own+name, value)
}
