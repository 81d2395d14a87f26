// Package canary reads every byte that reaches an upstream's socket, and finds what a sealing daemon must
// not send there: names of namespaces and keys, values, and headers that could carry them. The proofs put it
// between their daemons and their upstream.
package canary

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Word must never come, in any case of letters, neither as it is nor inside base64url. Proofs put it into the
// names and values that they are free to choose. By chance it comes once in some 60 GB of base64url.
const Word = "canary-"

// Watch reads what connections of a listener receive. It is safe for concurrent use.
type Watch struct {
	// Plain are the namespaces that are not sealed. Word must not come in them either.
	Plain []string
	// Headers are those that upstream.headers adds.
	Headers []string

	mu     sync.Mutex
	count  Count
	leaks  []string // the first ones
	leaked int
}

// Count says how much has been read.
type Count struct {
	Requests int   // for the memory API
	Values   int   // that were sealed
	Bytes    int64 // of all requests
}

// Listener returns l, whose connections are read along.
func (w *Watch) Listener(l net.Listener) net.Listener { return listener{l, w} }

// Count returns how much has been read so far.
func (w *Watch) Count() Count {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

func (c Count) String() string {
	return fmt.Sprintf("%d bytes upstream, in %d requests with %d sealed values", c.Bytes, c.Requests, c.Values)
}

// Err returns an error if anything plain has come.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaked == 0 {
		return nil
	}
	return fmt.Errorf("%d times something plain has come upstream:\n%s", w.leaked, strings.Join(w.leaks, "\n"))
}

// mostLeaks bounds how many leaks are kept and shown.
const mostLeaks = 10

func (w *Watch) leak(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaked++; w.leaked <= mostLeaks {
		w.leaks = append(w.leaks, fmt.Sprintf(format, args...))
	}
}

type listener struct {
	net.Listener
	watch *Watch
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); l.watch.read(r) }()
	return &conn{Conn: c, watch: l.watch, parser: w, done: done}, nil
}

type conn struct {
	net.Conn
	watch  *Watch
	parser *io.PipeWriter
	done   chan struct{} // closed when all has been judged
	tail   []byte        // the end of what was read before, in lower case
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.tail = append(c.tail, bytes.ToLower(p[:n])...)
		if bytes.Contains(c.tail, []byte(Word)) {
			c.watch.leak("the word %s: %.200q", Word, c.tail)
		}
		c.tail = slices.Clone(c.tail[max(0, len(c.tail)-len(Word)+1):])
		_, _ = c.parser.Write(p[:n]) // it fails once the parser has given up, and has said why
	}
	return n, err
}

func (c *conn) Close() error {
	_ = c.parser.Close()
	<-c.done
	return c.Conn.Close()
}

// read judges each request of a connection.
func (w *Watch) read(r *io.PipeReader) {
	counted := &counter{r: r, watch: w}
	requests := bufio.NewReader(counted)
	for {
		request, err := http.ReadRequest(requests)
		if err == nil {
			var body []byte
			if body, err = io.ReadAll(request.Body); err == nil {
				w.judge(request, body)
				continue
			}
		}
		if !counted.ended { // otherwise the request was cut off, which is none of its business
			w.leak("no request of HTTP: %v", err)
		}
		_, _ = io.Copy(io.Discard, counted)
		return
	}
}

type counter struct {
	r     io.Reader
	watch *Watch
	ended bool // nothing more comes
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.watch.mu.Lock()
	c.watch.count.Bytes += int64(n)
	c.watch.mu.Unlock()
	c.ended = err != nil
	return n, err
}

var (
	entry    = regexp.MustCompile(`^/memory/s1-[A-Za-z0-9_-]{43}/([A-Za-z0-9_-]{22,128})$`)
	listing  = regexp.MustCompile(`^/memory/s1-[A-Za-z0-9_-]{43}(\?limit=[0-9]+)?$`)
	value    = regexp.MustCompile(`^bw1\.([A-Za-z0-9_-]{100,})$`)
	readable = regexp.MustCompile(`[ -~]{32}`) // a run that random bytes have once in 10¹³
)

// headers are those of a request to the memory API.
var headers = []string{
	"Accept-Encoding", "Content-Length", "Content-Type", "Traceparent", "Tracestate", "User-Agent", "Via",
}

// judge finds what a request shows. A request for another path is a caller's own, which the daemon passes on.
func (w *Watch) judge(r *http.Request, body []byte) {
	path, err := url.PathUnescape(r.RequestURI)
	if err != nil {
		path = r.RequestURI
	}
	if !strings.HasPrefix(strings.TrimLeft(path, "/"), "memory") {
		return
	}
	namespace := strings.FieldsFunc(path+"/", func(r rune) bool { return r == '/' || r == '?' })[1:]
	if len(namespace) > 0 && slices.Contains(w.Plain, namespace[0]) {
		return
	}
	w.mu.Lock()
	w.count.Requests++
	w.mu.Unlock()
	where := fmt.Sprintf("%s %.200s", r.Method, r.RequestURI)
	for name := range r.Header {
		if !slices.Contains(headers, name) && !slices.Contains(w.Headers, name) {
			w.leak("%s: the header %s: %.200q", where, name, r.Header[name])
		}
	}
	key := entry.FindStringSubmatch(r.RequestURI)
	switch {
	case key != nil && w.sealed(where, key[1]) && (r.Method == http.MethodGet || r.Method == http.MethodDelete) && len(body) == 0:
	case listing.MatchString(r.RequestURI) && r.Method == http.MethodGet && len(body) == 0:
	case key != nil && r.Method == http.MethodPut:
		w.put(where, body)
	default:
		w.leak("%s: no request of a sealed namespace: %.200q", where, body)
	}
}

// put judges the body of a PUT.
func (w *Watch) put(where string, body []byte) {
	var fields map[string]string
	if err := json.Unmarshal(body, &fields); err != nil || len(fields) != 1 {
		w.leak("%s: not a value alone: %.200q", where, body)
		return
	}
	found := value.FindStringSubmatch(fields["value"])
	if found == nil {
		w.leak("%s: the value is not sealed: %.200q", where, body)
		return
	}
	if w.sealed(where, found[1]) {
		w.mu.Lock()
		w.count.Values++
		w.mu.Unlock()
	}
}

// sealed reports whether text is base64url of something that nobody can read.
func (w *Watch) sealed(where, text string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	plain := bytes.Contains(bytes.ToLower(raw), []byte(Word)) || readable.Match(raw)
	if err != nil || plain {
		w.leak("%s: readable once decoded: %.200q (%v)", where, raw, err)
	}
	return err == nil && !plain
}
