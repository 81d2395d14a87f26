package record

import "errors"

// ErrCorrupt says that something in the journal is not as it was written.
var ErrCorrupt = errors.New("journal corrupt")

// ID names an entry: one value under a namespace and a key.
type ID struct {
	Namespace string
	Key       string
}

func (id ID) String() string { return id.Namespace + "/" + id.Key }

// Op is a kind of write: a put or a delete.
type Op uint8

// The operations. Their numbers are part of the record format.
const (
	Put    Op = 1
	Delete Op = 2
)

func (op Op) String() string {
	switch op {
	case Put:
		return "put"
	case Delete:
		return "delete"
	}
	return "unknown"
}
