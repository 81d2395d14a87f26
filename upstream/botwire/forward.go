package botwire

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/httplog"
	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/internal/wire"
)

// forwardBody bounds the body of a forwarded request, in bytes.
const forwardBody = 32 << 20

// Forwarder passes requests that are not for the memory API on to upstream unchanged, and passes
// upstream's answers back without its CORS headers. A page of upstream's is not of the dashboard's origin.
type Forwarder struct {
	proxy httputil.ReverseProxy
	base  *url.URL
}

// NewForwarder returns a forwarder that uses the client's service, connections and headers. While
// dropAuthorization returns true, the callers' Authorization is not passed on: it is for the daemon
// itself. logger receives failures.
func NewForwarder(c *Client, dropAuthorization func() bool, logger *slog.Logger) *Forwarder {
	return &Forwarder{base: c.opts.URL, proxy: httputil.ReverseProxy{
		Transport:     c.http.Transport,
		FlushInterval: -1, // answers may be streams
		ErrorLog:      httplog.New(logger, slog.LevelWarn),
		Rewrite: func(r *httputil.ProxyRequest) {
			pointAt(c.opts.URL, r.Out, r.In)
			if dropAuthorization() {
				r.Out.Header.Del("Authorization")
			}
			r.Out.Header.Del(wire.AuthorHeader) // it is for the daemon itself
			if !isWebSocket(r.Out.Header) {
				r.Out.Header.Del("Upgrade")
				r.Out.Header.Del("Connection")
			}
			setConfigured(r.Out.Header, *c.headers.Load())
			c.opts.Chain.Sign(r.Out.Header)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.As(err, new(*http.MaxBytesError)) {
				wire.Detail(http.StatusRequestEntityTooLarge, "request body too large").Write(w)
				return
			}
			if r.Context().Err() == nil {
				logger.Warn("a request could not be passed on", "method", r.Method, "error", httplog.Unquoted(err.Error()))
			}
			wire.Unavailable(time.Second, "upstream is unavailable").Write(w)
		},
	}}
}

func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	body := &callersBody{ReadCloser: http.MaxBytesReader(w, r.Body, forwardBody), control: control, left: callersTime}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = body
	}
	w = &callersAnswer{w, control}
	proxy := f.proxy
	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		refusal := body.refusal()
		if refusal == nil {
			f.proxy.ErrorHandler(w, r, err)
			return
		}
		w.Header().Set("Connection", "close") // the rest of the body is not read
		refusal.Write(w)
	}
	proxy.ModifyResponse = func(resp *http.Response) error {
		withoutCORS(resp.Header)
		resp.Header.Set("Content-Security-Policy", "sandbox") // guard 22.27
		resp.Header.Set("X-Content-Type-Options", "nosniff")
		via.Strip(resp.Header) // upstream may be a botwired, too
		if here, ok := f.localize(resp.Header.Get("Location"), r); ok {
			resp.Header.Set("Location", here)
		}
		return nil
	}
	proxy.ServeHTTP(w, r)
}

// setConfigured replaces the caller's headers with the configured ones. Many servers read "_" in a name
// as "-", so the caller's X_Api must not stand beside a configured X-Api.
func setConfigured(h, configured http.Header) {
	folded := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }
	names := make(map[string]bool, len(configured))
	for name := range configured {
		names[folded(name)] = true
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return names[folded(name)] })
	maps.Copy(h, configured)
}

// pointAt turns out into a request to upstream's base without cleaning its path.
func pointAt(base *url.URL, out, in *http.Request) {
	out.Host = base.Host
	out.URL = &url.URL{
		Scheme: base.Scheme, Host: base.Host,
		Path:       strings.TrimSuffix(base.Path, "/") + in.URL.Path,
		RawPath:    strings.TrimSuffix(base.EscapedPath(), "/") + in.URL.EscapedPath(),
		RawQuery:   in.URL.RawQuery,
		ForceQuery: in.URL.ForceQuery,
	}
}

// localize turns a Location under upstream's URL into one under the address by which the caller reached
// this daemon. ok is false if the Location points elsewhere, or is relative and right as it is.
func (f *Forwarder) localize(location string, r *http.Request) (here string, ok bool) {
	to, err := url.Parse(location)
	if err != nil || location == "" {
		return "", false
	}
	prefix := strings.TrimSuffix(f.base.EscapedPath(), "/")
	relative := to.Host == "" && (prefix == "" || !strings.HasPrefix(location, "/"))
	path, under := strings.CutPrefix(to.EscapedPath(), prefix)
	if relative || !under || to.Host != "" && !strings.EqualFold(to.Host, f.base.Host) ||
		path != "" && path[0] != '/' {
		return "", false
	}
	to.Scheme, to.Host, to.User, to.Path, to.RawPath = "", "", nil, "", ""
	return "http://" + r.Host + path + to.String(), true
}

func withoutCORS(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			h.Del(name)
		}
	}
}
