package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
)

// absent is the version of an entry that does not exist, and the state of a delete that found no entry.
const absent = "absent"

// headerOf returns the header for a write of the call's author that requires a version of the entry.
func headerOf(ctx context.Context, version string) http.Header {
	h := http.Header{}
	if author := authorIn(ctx); author != "" {
		h.Set(wire.AuthorHeader, author)
	}
	switch version {
	case "":
	case absent:
		wire.SetGiven(h, "If-None-Match", "*")
	default:
		wire.SetGiven(h, "If-Match", `"`+version+`"`)
	}
	return h
}

// nameWrite names a write. A daemon makes a named write once: a request whose answer is lost may be repeated. By the name
// Idempotency-Key, net/http would repeat it unseen, and its error would not say that the daemon may have carried it out.
func nameWrite(h http.Header) http.Header {
	h.Set(wire.OwnIdempotencyKey, rand.Text())
	return h
}

type written struct {
	State string `json:"state" jsonschema:"pending: durable on this machine and on its way to BotWire; settled: BotWire has it"`
	Write uint64 `json:"write,omitempty" jsonschema:"the number of the write, which memory_history tells of"`
}

func newWritten(h http.Header) written {
	fields := strings.Split(h.Get("Botwired-Write"), ";")
	w := written{State: strings.TrimSpace(fields[0])}
	for _, field := range fields[1:] {
		if seq, ok := strings.CutPrefix(strings.TrimSpace(field), "seq="); ok {
			w.Write, _ = strconv.ParseUint(seq, 10, 64) // the daemon wrote it
		}
	}
	return w
}

// madeBy returns the write that an error tells of: its namespace writes through, and upstream has not confirmed it in time.
// It is durable, so to an agent the call has succeeded: an agent that took it for failed would append twice.
func madeBy(err error) (w written, isMade bool) {
	answer, isRefused := errors.AsType[*api.Refused](err)
	if !isRefused || answer.Status != http.StatusGatewayTimeout {
		return written{}, false
	}
	w = newWritten(answer.Header)
	return w, w.State == "pending"
}

type writeResult struct {
	Namespace  string `json:"namespace"`
	Key        string `json:"key"`
	Version    string `json:"version,omitempty" jsonschema:"the entry's version from now on"`
	Characters int    `json:"characters" jsonschema:"of the whole value"`
	written
}

func (s *toolset) writeTool() tool {
	return tool{
		name: "memory_write", title: "Write a value", effect: replaces, result: resultOf[writeResult](),
		about: "Stores a value under a key, in place of the one that is there. " +
			"With if_version it writes only if nobody has changed the entry since you read it.",
		arguments: s.within(keyArgument, valueArgument, versionArgument),
		run: func(ctx context.Context, in arguments) (any, error) {
			return s.put(ctx, in, api.Request{
				Method: http.MethodPut, Path: api.Memory(s.namespaceOf(in), in.text("key")), Body: api.ValueBody(in.text("value")),
			})
		},
	}
}

func (s *toolset) appendTool() tool {
	return tool{
		name: "memory_append", title: "Append to a value", effect: adds, result: resultOf[writeResult](),
		about: "Adds a text to the end of the value under a key, or stores it if there is none. " +
			"Others on this machine can append at the same time: nothing is lost.",
		arguments: s.within(keyArgument, valueArgument, argument{
			name: "separator", most: maxSeparator,
			about:   "Stands between what is there and the new text; a line end if it is not given.",
			accepts: "a text of at most 100 characters",
		}, versionArgument),
		run: func(ctx context.Context, in arguments) (any, error) {
			separator, given := in["separator"].(string)
			if !given {
				separator = "\n"
			}
			return s.put(ctx, in, api.Request{
				Method: http.MethodPost, Path: api.Surface("append"),
				Query: url.Values{"namespace": {s.namespaceOf(in)}, "key": {in.text("key")}, "separator": {separator}},
				Body:  api.ValueBody(in.text("value")),
			})
		},
	}
}

const maxSeparator = 100

func (s *toolset) put(ctx context.Context, in arguments, r api.Request) (any, error) {
	r.Header = nameWrite(headerOf(ctx, in.text("if_version")))
	var stored struct {
		Bytes int `json:"bytes"` // these are characters
	}
	out := writeResult{Namespace: s.namespaceOf(in), Key: shownKey(in)}
	answer, err := s.daemon.Read(ctx, r, &stored)
	if w, isMade := madeBy(err); isMade {
		entry, version, found, readErr := s.daemon.read(ctx, out.Namespace, in.text("key"))
		if readErr == nil && found {
			out.Version, out.Characters, out.written = version, utf8.RuneCountInString(entry.Value), w
			return out, nil
		}
	}
	if err != nil {
		return nil, s.explain(ctx, in, err)
	}
	out.Version, out.Characters, out.written = versionOf(answer.Header), stored.Bytes, newWritten(answer.Header)
	return out, nil
}

// explain adds the entry's current version to the error of a failed condition.
func (s *toolset) explain(ctx context.Context, in arguments, err error) error {
	if !api.IsRefused(err, http.StatusPreconditionFailed) {
		return err
	}
	_, version, found, readErr := s.daemon.read(ctx, s.namespaceOf(in), in.text("key"))
	now := "it has version " + version
	switch {
	case readErr != nil:
		now = "its version is not known now"
	case !found:
		now = `there is no such entry, which is version "absent"`
	}
	return fmt.Errorf("conflict: the entry has not the version in if_version, so nothing was written: %s: "+
		"read it, make your change again, and write with the version that you have read", now)
}

type deleteResult struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Deleted   bool   `json:"deleted" jsonschema:"false if there was no such entry"`
	written
}

func (s *toolset) deleteTool() tool {
	return tool{
		name: "memory_delete", title: "Delete an entry", effect: replaces, result: resultOf[deleteResult](),
		about:     "Deletes the value under a key. With if_version it does so only if nobody has changed the entry since you read it.",
		arguments: s.within(keyArgument, versionArgument),
		run:       s.delete,
	}
}

func (s *toolset) delete(ctx context.Context, in arguments) (any, error) {
	out, key := deleteResult{Namespace: s.namespaceOf(in), Key: shownKey(in)}, in.text("key")
	if in.text("if_version") == absent {
		return nil, fmt.Errorf(`if_version is "absent": expected the version of an entry that exists, as only that can be deleted`)
	}
	answer, err := s.daemon.Do(ctx, api.Request{
		Method: http.MethodDelete, Path: api.Memory(out.Namespace, key), Header: nameWrite(headerOf(ctx, in.text("if_version"))),
	})
	w, isMade := madeBy(err)
	switch {
	case api.IsAbsent(err, out.Namespace, key):
		out.State = absent
		return out, nil
	case isMade:
		out.Deleted, out.written = true, w
		return out, nil
	case err != nil:
		return nil, s.explain(ctx, in, err)
	}
	out.Deleted, out.written = true, newWritten(answer.Header)
	return out, nil
}
