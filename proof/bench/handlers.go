package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// longest bounds an answer of the bare handler, in bytes.
const longest = 1 << 20

// serveAt serves until ctx ends. The arguments are an address and the least time of
// each answer.
func serveAt(ctx context.Context, args []string, handler http.Handler) error {
	if len(args) != 2 {
		return errors.New("expected an address to listen on, and a latency")
	}
	latency, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	if latency > 0 {
		handler = delayed(handler, latency)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	s := &http.Server{Handler: handler}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// delayed makes a handler's answers come from far away.
func delayed(handler http.Handler, latency time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(latency):
			handler.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// bareHandler answers a GET of /N with N bytes, with botwired's headers, and does
// nothing else. Its figures are the cost of net/http.
func bareHandler() http.Handler {
	body := bytes.Repeat([]byte("x"), longest)
	contentType := []string{"application/json"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || n < 0 || n > longest {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h := w.Header()
		h["Content-Type"] = contentType
		h["Content-Length"] = []string{strconv.Itoa(n)}
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body[:n]) // if this fails the caller is gone
	})
}

// sinkHandler is an upstream that takes every write at once, and keeps it in memory: only the
// daemon itself bounds how much it flushes. The daemon reads an entry back after a request that
// nobody answered, and believes what it reads.
func sinkHandler() http.Handler {
	var held sync.Map // entryName to wire.Entry
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := wire.ParseRoute(r.URL.Path)
		name := entryName{route.Namespace, route.Key}
		body := []byte(`{"status":"ok"}`)
		switch {
		case route.Kind == wire.EntryRoute && r.Method == http.MethodPut:
			sent, err := io.ReadAll(r.Body)
			value, refusal := wire.DecodePut(r.Header, sent)
			if err != nil || refusal != nil {
				wire.Detail(http.StatusBadRequest, fmt.Sprint("not a write: ", err)).Write(w)
				return
			}
			now := float64(time.Now().UnixMicro()) / 1e6
			held.Store(name, wire.Entry{Namespace: name.namespace, Key: name.key, Value: value, CreatedAt: now, UpdatedAt: now})
			body = wire.AppendStored(nil, name.namespace, name.key, wire.CodePoints(value))
		case route.Kind == wire.EntryRoute:
			entry, ok := held.Load(name)
			if !ok {
				wire.NotFound(name.namespace, name.key).Write(w)
				return
			}
			body = entry.(wire.Entry).AppendJSON(nil)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // if this fails the caller is gone
	})
}

// entryName names an entry of the sink's.
type entryName struct{ namespace, key string }
