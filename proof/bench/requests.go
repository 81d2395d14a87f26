package main

import (
	"fmt"
	"strconv"

	"github.com/botwired/botwired/proof/load"
)

const (
	// entries is the number of entries that bench reads: those of a hundred agents.
	entries = 1000
	agents  = 100
)

// requester makes the n-th request of a connection, as [load.Options] wants it.
type requester func(dst []byte, connection, n int) []byte

// entryPath names the i-th entry that bench reads.
func entryPath(i int) string {
	return fmt.Sprintf("agent-%03d/fact-%04d", i%agents, i)
}

// spread picks an entry for a request. Each connection goes its own way through all.
func spread(connection, n int) int { return (connection*389 + n*7) % entries }

// prepared picks a request from a list.
func prepared(make func(i int) []byte) requester {
	all := [entries][]byte{}
	for i := range all {
		all[i] = make(i)
	}
	return func(dst []byte, connection, n int) []byte {
		return append(dst, all[spread(connection, n)]...)
	}
}

// always returns the same request each time.
func always(request []byte) requester {
	return func(dst []byte, _, _ int) []byte { return append(dst, request...) }
}

func getEntries(host string) requester {
	return prepared(func(i int) []byte { return get(host, "/memory/"+entryPath(i)) })
}

func redisGets() requester {
	return prepared(func(i int) []byte {
		return load.AppendWord(load.AppendWord(load.AppendCommand(nil, 2), "GET"), entryPath(i))
	})
}

// naming names the entry that a request writes.
type naming func(dst []byte, connection, n int) []byte

// distinct names an entry for each request, of a thousand agents.
func distinct(dst []byte, connection, n int) []byte {
	dst = strconv.AppendInt(append(dst, "agent-"...), int64((connection*31+n)%1000), 10)
	dst = strconv.AppendInt(append(dst, "/run-"...), int64(connection), 10)
	return strconv.AppendInt(append(dst, '-'), int64(n), 10)
}

// oneKey names the same entry each time.
func oneKey(dst []byte, _, _ int) []byte { return append(dst, "agent-0/counter"...) }

// existing names one of the entries that bench reads.
func existing() naming {
	var names [entries]string
	for i := range names {
		names[i] = entryPath(i)
	}
	return func(dst []byte, connection, n int) []byte { return append(dst, names[spread(connection, n)]...) }
}

func httpPuts(host string, name naming) requester {
	const before, after = `{"value":"`, `"}`
	v := newValues()
	return func(dst []byte, connection, n int) []byte {
		dst = name(append(load.AppendPut(dst), "/memory/"...), connection, n)
		dst = load.AppendBody(dst, host, len(before)+valueSize+len(after))
		return append(v.append(append(dst, before...), connection, n), after...)
	}
}

func redisSets(name naming) requester {
	v := newValues()
	return func(dst []byte, connection, n int) []byte {
		dst = load.AppendWord(load.AppendCommand(dst, 3), "SET")
		// naming runs twice: the first run gives the length without an allocation.
		dst = load.AppendLength(dst, len(name(dst, connection, n))-len(dst))
		dst = append(name(dst, connection, n), "\r\n"...)
		return append(v.append(load.AppendLength(dst, valueSize), connection, n), "\r\n"...)
	}
}

// mixed makes every tenth request a write, each connection at another time.
func mixed(read, write requester) requester {
	return func(dst []byte, connection, n int) []byte {
		if (connection+n)%10 == 0 {
			return write(dst, connection, n)
		}
		return read(dst, connection, n)
	}
}
