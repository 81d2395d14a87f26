package fastpath

import "bytes"

const (
	// maxHead bounds the request line and headers of a simple request, in bytes. SDKs send a few hundred.
	// net/http reads a longer head, with its own bound.
	maxHead = 8 << 10
	// maxBody bounds the body of a simple request, in bytes, and so the size of all connections' buffers
	// together. net/http reads a larger body.
	maxBody = 32 << 10
	// prefix begins the path of a simple request.
	prefix = "/memory/"
	// version ends the first line of a request.
	version = " HTTP/1.1"
	// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1). No HTTP request begins with
	// it.
	tlsHandshake = 0x16
)

// Request is a simple request. It is valid until Answer returns.
type Request struct {
	Method string // GET, PUT or DELETE
	Path   string // without the query; it has no escapes
	Query  bool   // there was a query
	JSON   bool   // Content-Type is exactly application/json
	Body   []byte // complete
	Agent  []byte // the header User-Agent
	Author string // the header Botwired-Author
	// Date is the Date header line that the answer must have.
	Date string

	// TraceParent and TraceState are the values of these headers.
	TraceParent, TraceState []byte

	host          []byte
	authorization []byte
	length        int // of the body; -1 if not given
	seen          headerSet
	odd           bool // net/http has to answer it
	chunked       bool // the body comes in chunks
	headEnded     bool // all headers were read
}

// headerSet is a set of headers that change how a request is handled, and may come only once.
type headerSet uint16

const (
	host headerSet = 1 << iota
	authorization
	connection
	contentLength
	contentType
	transferEncoding
	author
	agent
	traceParent
)

// part says how much of a simple request the input begins with.
type part uint8

const (
	whole     part = iota // a whole simple request
	noHead                // perhaps a simple request: the rest of its head has not come
	noBody                // a simple request, but the rest of its body has not come
	faulty                // the head of a request whose end is uncertain: it is refused
	encrypted             // TLS, not HTTP
	foreign               // not a simple request, but it is certain where it ends
	unusual               // not a simple request, and net/http has to find out where it ends
)

// parse reads the request that input begins with. size is the size of a whole, noBody or foreign request; the
// body of the last two may not have come yet.
//
// net/http must read each whole request as the same request, and find the end of each foreign one at the same
// place. So parse knows one way of writing each thing, and leaves to net/http everything that two readers
// might understand differently.
func parse(input []byte, r *Request) (size int, p part) {
	if len(input) > 0 && input[0] == tlsHandshake {
		return 0, encrypted
	}
	line, rest, p := cutLine(input)
	if p != whole {
		return 0, p
	}
	*r = Request{length: -1}
	if !r.readLine(line) {
		return 0, unusual
	}
	for {
		if line, rest, p = cutLine(rest); p != whole {
			if len(input) > maxHead {
				p = unusual
			}
			return 0, p
		}
		if len(line) == 0 {
			r.headEnded = true
			break
		}
		if !r.readHeader(line) {
			return 0, unusual
		}
	}
	length, head := max(0, r.length), len(input)-len(rest)
	size = head + length
	switch {
	case r.chunked && r.length >= 0: // guard 16.41
		return 0, faulty
	case r.chunked || r.seen&host == 0 || head > maxHead:
		return 0, unusual
	case r.odd || !r.hasUsualBody():
		return size, foreign
	case len(rest) < length:
		return size, noBody
	}
	r.Body = rest[:length:length]
	return size, whole
}

// cutLine cuts the first line off b. In a simple request, every line ends with CR LF.
func cutLine(b []byte) (line, rest []byte, p part) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0 && len(b) > maxHead:
		return nil, nil, unusual
	case i < 0:
		return nil, nil, noHead
	case i == 0, b[i-1] != '\r':
		return nil, nil, unusual
	}
	return b[:i-1], b[i+1:], whole
}

// readLine reads a request line. It returns false if the request is unusual.
func (r *Request) readLine(line []byte) bool {
	line, ok := bytes.CutSuffix(line, []byte(version))
	if !ok {
		return false
	}
	method, target, ok := bytes.Cut(line, []byte{' '})
	if !ok || !bytes.HasPrefix(target, []byte{'/'}) || !all(target, &visible) {
		return false
	}
	switch string(method) {
	case "GET":
		r.Method = "GET"
	case "PUT":
		r.Method = "PUT"
	case "DELETE":
		r.Method = "DELETE"
	default:
		if !all(method, &upper) || string(method) == "CONNECT" {
			return false
		}
		r.odd = true
		return true
	}
	path, query, found := bytes.Cut(target, []byte{'?'})
	if !bytes.HasPrefix(path, []byte(prefix)) || !all(path, &simpleInPath) || !all(query, &simpleInQuery) {
		r.odd = true
		return true
	}
	r.Path, r.Query = string(path), found
	return true
}

// readHeader reads a header line. It returns false if the request is unusual. A simple request has only
// headers that are harmless or understood here.
func (r *Request) readHeader(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || len(name) == 0 || !all(name, &inName) {
		return false
	}
	if !all(value, &printable) {
		if !all(value, &inValue) {
			return false
		}
		r.odd = true
	}
	value = bytes.Trim(value, " ")
	switch {
	case is(name, "host"):
		r.host = value
		return r.once(host) && len(value) > 0 && all(value, &simpleInHost)
	case is(name, "content-length"):
		return r.once(contentLength) && r.readLength(value)
	case is(name, "connection"):
		return r.once(connection) && is(value, "keep-alive")
	case is(name, "transfer-encoding"):
		r.chunked = is(value, "chunked")
		return r.chunked && r.once(transferEncoding)
	case endsElsewhere(name):
		return false
	case is(name, "user-agent"):
		r.Agent = value
		r.odd = r.odd || !r.once(agent)
	case is(name, "botwired-author"):
		r.Author = string(value)
		r.odd = r.odd || !r.once(author) || len(value) == 0
	case is(name, "content-type"):
		r.JSON = string(value) == "application/json"
		r.odd = r.odd || !r.once(contentType)
	case is(name, "authorization"):
		r.authorization = value
		r.odd = r.odd || !r.once(authorization)
	case is(name, "traceparent"):
		r.TraceParent = value
		r.odd = r.odd || !r.once(traceParent)
	case is(name, "tracestate"):
		if r.TraceState != nil { // its parts may come in several headers
			value = bytes.Join([][]byte{r.TraceState, value}, []byte{','})
		}
		r.TraceState = value
	case !isHarmless(name):
		r.odd = true
	}
	return true
}

func (r *Request) once(h headerSet) bool {
	first := r.seen&h == 0
	r.seen |= h
	return first
}

func (r *Request) readLength(digits []byte) bool {
	const most = 9 // digits; no body needs more
	if len(digits) == 0 || len(digits) > most {
		return false
	}
	r.length = 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
		r.length = r.length*10 + int(c-'0')
	}
	return true
}

// hasUsualBody reports whether the body suits a simple request: a PUT has a small one, other methods have
// none.
func (r *Request) hasUsualBody() bool {
	if r.Method == "PUT" {
		return 0 <= r.length && r.length <= maxBody
	}
	return r.length <= 0
}

type class [256]bool

var (
	simpleInPath  = classOf("/_-.~")
	simpleInQuery = classOf("=&_-.~")
	simpleInHost  = classOf(".:[]-_")
	inName        = classOf("!#$%&'*+-.^_`|~") // RFC 9110, section 5.6.2
	printable     = between(' ', '~')
	visible       = between('!', 0xff).without(0x7f)
	inValue       = between(' ', 0xff).without(0x7f).with('\t')
	upper         = between('A', 'Z')
)

func between(first, last int) (c class) {
	for b := first; b <= last; b++ {
		c[b] = true
	}
	return c
}

func (c class) with(b byte) class {
	c[b] = true
	return c
}

func (c class) without(b byte) class {
	c[b] = false
	return c
}

// classOf returns the class of ASCII letters, digits and the others.
func classOf(others string) (c class) {
	for _, b := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + others {
		c[b] = true
	}
	return c
}

func all(b []byte, of *class) bool {
	for _, c := range b {
		if !of[c] {
			return false
		}
	}
	return true
}
