package front

import "bytes"

const (
	// maxHead bounds the request line and the headers of a plain request, in bytes.
	// What SDKs send is a few hundred; anything longer is net/http's, with its bound.
	maxHead = 8 << 10
	// maxBody bounds the body of a plain request, in bytes, and so what the buffers of
	// all connections can take together. A larger one is net/http's.
	maxBody = 32 << 10
	// prefix is what the path of a plain request begins with.
	prefix = "/memory/"
)

// Request is a plain request. It is valid until its answer has been made.
type Request struct {
	Method string // GET, PUT or DELETE
	Path   string // as it came, which is as it is decoded; without the query
	Query  bool   // whether there was a query
	JSON   bool   // whether Content-Type is application/json and nothing more
	Body   []byte // complete
	// Date is the line of the header Date, to be part of the answer.
	Date string

	host          []byte
	authorization []byte
	length        int // of the body; -1 is not given
	seen          header
}

// header is a set of the headers that decide about a request, and may come only once.
type header uint8

const (
	host header = 1 << iota
	authorization
	connection
	contentLength
	contentType
)

// verdict is what the beginning of a connection's input is.
type verdict uint8

const (
	whole   verdict = iota // a plain request, complete
	noHead                 // it may be one: the rest of its head has not arrived
	noBody                 // it is one, but for the rest of its body
	unusual                // anything else
)

// parse reads the request that input begins with. size is that of a whole one.
//
// What it takes for whole, net/http reads as the same request: it knows one way of
// writing each thing and no other, so that whatever two readers might understand
// differently is left to one of them.
func parse(input []byte, r *Request) (size int, v verdict) {
	line, rest, v := cutLine(input)
	if v != whole {
		return 0, v
	}
	*r = Request{length: -1}
	if !r.readLine(line) {
		return 0, unusual
	}
	for {
		if line, rest, v = cutLine(rest); v != whole {
			if len(input) > maxHead {
				v = unusual
			}
			return 0, v
		}
		if len(line) == 0 {
			break
		}
		if !r.readHeader(line) {
			return 0, unusual
		}
	}
	if !r.isSound() || len(input)-len(rest) > maxHead {
		return 0, unusual
	}
	length := max(0, r.length)
	if len(rest) < length {
		return 0, noBody
	}
	r.Body = rest[:length:length]
	return len(input) - len(rest) + length, whole
}

// cutLine takes the first line off b. A line feed alone ends no plain line.
func cutLine(b []byte) (line, rest []byte, v verdict) {
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

// readLine reads a request line.
func (r *Request) readLine(line []byte) bool {
	line, ok := bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	if !ok {
		return false
	}
	method, target, ok := bytes.Cut(line, []byte{' '})
	if !ok || !bytes.HasPrefix(target, []byte(prefix)) {
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
		return false
	}
	path, query, found := bytes.Cut(target, []byte{'?'})
	if !all(path, plainInPath) || !all(query, plainInQuery) {
		return false
	}
	r.Path, r.Query = string(path), found
	return true
}

// readHeader reads a header line, of which there may be only those that change nothing
// about a request or that are understood here.
func (r *Request) readHeader(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !all(value, printable) {
		return false
	}
	value = bytes.Trim(value, " ")
	switch {
	case is(name, "host"):
		r.host = value
		return r.once(host) && len(value) > 0 && all(value, plainInHost)
	case is(name, "content-length"):
		return r.once(contentLength) && r.readLength(value)
	case is(name, "content-type"):
		r.JSON = string(value) == "application/json"
		return r.once(contentType)
	case is(name, "authorization"):
		r.authorization = value
		return r.once(authorization)
	case is(name, "connection"):
		return r.once(connection) && is(value, "keep-alive")
	case is(name, "user-agent"), is(name, "accept"), is(name, "accept-encoding"), is(name, "accept-language"),
		is(name, "sec-fetch-mode"):
		return true
	}
	return false
}

func (r *Request) once(h header) bool {
	first := r.seen&h == 0
	r.seen |= h
	return first
}

func (r *Request) readLength(digits []byte) bool {
	const most = 6 // digits: no length that can be plain has more
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
	return r.length <= maxBody
}

// isSound reports whether the head as a whole is plain: it names a host, and there is
// a body where there should be one and only there.
func (r *Request) isSound() bool {
	if r.seen&host == 0 {
		return false
	}
	if r.Method == "PUT" {
		return r.length >= 0
	}
	return r.length <= 0
}

// is reports whether b is a name, given in lower case, in any case.
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

// class is a set of bytes.
type class [256]bool

var (
	plainInPath  = classOf("/_-.~")
	plainInQuery = classOf("=&_-.~")
	plainInHost  = classOf(".:[]-_")
	printable    = func() (c class) {
		for b := ' '; b <= '~'; b++ {
			c[b] = true
		}
		return c
	}()
)

// classOf is the ASCII letters, the digits and what else is given.
func classOf(others string) (c class) {
	for _, b := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + others {
		c[b] = true
	}
	return c
}

func all(b []byte, of class) bool {
	for _, c := range b {
		if !of[c] {
			return false
		}
	}
	return true
}
