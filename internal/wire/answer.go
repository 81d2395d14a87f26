package wire

import "strconv"

// Entry is one value under (namespace, key). Times are Unix seconds.
type Entry struct {
	Namespace, Key, Value string
	CreatedAt, UpdatedAt  float64
}

// AppendJSON appends the answer to a GET of the entry.
func (e Entry) AppendJSON(dst []byte) []byte {
	dst = appendName(dst, `{"namespace":`, e.Namespace)
	dst = appendName(dst, `,"key":`, e.Key)
	dst = appendName(dst, `,"value":`, e.Value)
	dst = appendFloat(append(dst, `,"created_at":`...), e.CreatedAt)
	dst = appendFloat(append(dst, `,"updated_at":`...), e.UpdatedAt)
	return append(dst, '}')
}

// Item is one entry of a [Listing]; Bytes is as [ListBytes] counts, UpdatedAt in Unix seconds.
type Item struct {
	Key       string
	Bytes     int
	UpdatedAt float64
}

// Listing is a namespace's entries, newest first.
type Listing struct {
	Namespace string
	Items     []Item
}

// AppendJSON appends the answer to a GET of the namespace.
func (l Listing) AppendJSON(dst []byte) []byte {
	dst = appendName(dst, `{"namespace":`, l.Namespace)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(len(l.Items)), 10)
	dst = append(dst, `,"keys":[`...)
	for i, item := range l.Items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item.appendJSON(dst)
	}
	return append(dst, "]}"...)
}

func (i Item) appendJSON(dst []byte) []byte {
	dst = appendName(dst, `{"key":`, i.Key)
	dst = strconv.AppendInt(append(dst, `,"bytes":`...), int64(i.Bytes), 10)
	dst = appendFloat(append(dst, `,"updated_at":`...), i.UpdatedAt)
	return append(dst, '}')
}

// AppendStored appends the answer to a PUT of a value of n code points.
func AppendStored(dst []byte, ns, key string, n int) []byte {
	dst = appendName(dst, `{"namespace":`, ns)
	dst = appendName(dst, `,"key":`, key)
	dst = strconv.AppendInt(append(dst, `,"stored":true,"bytes":`...), int64(n), 10)
	return append(dst, '}')
}

// AppendDeleted appends the answer to a DELETE of an entry that existed.
func AppendDeleted(dst []byte, ns, key string) []byte {
	dst = appendName(dst, `{"deleted":true,"namespace":`, ns)
	dst = appendName(dst, `,"key":`, key)
	return append(dst, '}')
}

func appendName(dst []byte, before, s string) []byte {
	return appendString(append(dst, before...), s)
}
