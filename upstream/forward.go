package upstream

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// forwardBody bounds the body of a request that is passed on, in bytes.
const forwardBody = 32 << 20

// Forwarder passes requests that are not for the memory API on to upstream, as they
// came, and upstream's answers back, without its CORS headers.
type Forwarder struct {
	proxy *httputil.ReverseProxy
}

// NewForwarder returns a forwarder that uses the client's service and headers.
// dropAuthorization keeps the callers' Authorization from upstream: it is for this
// daemon. logger receives failures.
func NewForwarder(c *Client, dropAuthorization bool, logger *slog.Logger) *Forwarder {
	transport := newTransport(c.opts)
	transport.ResponseHeaderTimeout = c.opts.Timeout
	return &Forwarder{&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // answers may be streams
		Rewrite: func(r *httputil.ProxyRequest) {
			redirect(r.Out, r.In, c)
			if dropAuthorization {
				r.Out.Header.Del("Authorization")
			}
			for name, values := range c.opts.Headers {
				r.Out.Header[name] = values
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			withoutCORS(resp.Header)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			logger.Warn("a request could not be passed on", "method", r.Method, "error", err)
			writeUnavailable(w)
		},
	}}
}

func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, forwardBody)
	f.proxy.ServeHTTP(w, r)
}

// redirect points a request at upstream without cleaning its path.
func redirect(out, in *http.Request, c *Client) {
	base := c.opts.URL
	out.Host = base.Host
	out.URL = &url.URL{
		Scheme: base.Scheme, Host: base.Host,
		Path:     strings.TrimSuffix(base.Path, "/") + in.URL.Path,
		RawPath:  strings.TrimSuffix(base.EscapedPath(), "/") + in.URL.EscapedPath(),
		RawQuery: in.URL.RawQuery,
	}
}

func withoutCORS(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			h.Del(name)
		}
	}
}

func writeUnavailable(w http.ResponseWriter) {
	body, err := json.Marshal(map[string]string{"detail": "upstream is unavailable"})
	if err != nil {
		panic(err) // a map of strings always encodes
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body) // the caller is gone if this fails
}
