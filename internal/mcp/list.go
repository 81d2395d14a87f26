package mcp

import (
	"context"
	"errors"
	"net/url"
)

const (
	// keysPage is how many keys are asked for at a time.
	keysPage = 1000
	// keysLooked bounds how many keys one call of memory_list looks at.
	keysLooked = 50_000
)

// knownDocument is an entry of which something is known at the daemon.
type knownDocument struct {
	Key       string  `json:"key"`
	State     string  `json:"state"` // pending or settled
	Op        string  `json:"op"`
	ListBytes int     `json:"list_bytes"`
	UpdatedAt float64 `json:"updated_at"`
	Seq       uint64  `json:"seq"` // null if the newest write is not this daemon's
}

func (k *knownDocument) isDeleted() bool { return k.Op == "delete" }

// knownPage is a page of them, in the order of the keys. It lacks nothing that upstream holds if
// Complete.
type knownPage struct {
	Entries  []knownDocument `json:"entries"`
	Next     *string         `json:"next"`
	Complete bool            `json:"complete"`
}

func (d *daemon) known(ctx context.Context, namespace, prefix, after string, limit int) (page knownPage, err error) {
	query := url.Values{"namespace": {namespace}, "prefix": {prefix}, "after": {after}, "limit": {itoa(limit)}}
	_, err = d.do(ctx, request{path: surface("entries"), query: query}, &page)
	return page, err
}

// listDocument is the daemon's answer to a LIST.
type listDocument struct {
	Keys []struct {
		Key       string  `json:"key"`
		Bytes     int     `json:"bytes"`
		UpdatedAt float64 `json:"updated_at"`
	} `json:"keys"`
}

// list returns the newest keys of a namespace. The daemon asks upstream for them, unless it knows
// them well enough, and then knows all that upstream can list.
func (d *daemon) list(ctx context.Context, namespace string, limit int) (list listDocument, err error) {
	_, err = d.do(ctx, request{path: []string{"memory", namespace}, query: url.Values{"limit": {itoa(limit)}}}, &list)
	return list, err
}

// knownNamespaces is a page of the namespaces that the daemon knows.
type knownNamespaces struct {
	Namespaces []struct {
		Namespace string `json:"namespace"`
		Entries   int    `json:"entries"`
	} `json:"namespaces"`
	Next *string `json:"next"`
}

func (d *daemon) namespaces(ctx context.Context, after string, limit int) (page knownNamespaces, err error) {
	query := url.Values{"after": {after}, "limit": {itoa(limit)}}
	_, err = d.do(ctx, request{path: surface("namespaces"), query: query}, &page)
	return page, err
}

type listedEntry struct {
	Key        string `json:"key"`
	Characters int    `json:"characters" jsonschema:"of the value"`
	UpdatedAt  string `json:"updated_at"`
}

type listedNamespace struct {
	Namespace string `json:"namespace"`
	Entries   int    `json:"entries" jsonschema:"how many are known on this machine"`
}

type listResult struct {
	Namespace  string            `json:"namespace,omitempty"`
	Namespaces []listedNamespace `json:"namespaces,omitzero" jsonschema:"there only if no namespace was given"`
	Entries    []listedEntry     `json:"entries,omitzero" jsonschema:"in the order of the keys"`
	cutAnswer
}

// cutAnswer says of an answer what it lacks.
type cutAnswer struct {
	Next string `json:"next,omitempty" jsonschema:"there only if the answer is cut: call again with this as after"`
	Note string `json:"note,omitempty" jsonschema:"says why entries may be missing"`
}

const (
	noteNext       = "this is not all: call again with next as after"
	noteIncomplete = "BotWire lists only the newest 1000 keys of a namespace, and this machine does not know of others"
)

func (s *toolset) listTool() tool {
	arguments := s.within(prefixArgument, argument{
		name: "since", most: 40, moment: true,
		about:   "Only entries that were updated at this time or later, such as 2026-01-31T12:00:00Z.",
		accepts: "a time such as 2026-01-31T12:00:00Z (RFC 3339)",
	}, limitArgument("keys", 100, keysPage), afterArgument)
	about := "Lists the keys of the namespace."
	if s.namespace == "" {
		arguments[0].required = false
		about = "Lists the keys of a namespace. Without a namespace, it lists the namespaces that this machine knows."
	}
	return tool{
		name: "memory_list", title: "List keys", about: about, effect: reads,
		arguments: arguments, result: resultOf[listResult](), run: s.list,
	}
}

func (s *toolset) list(ctx context.Context, in arguments) (any, error) {
	out := listResult{Namespace: s.namespaceOf(in)}
	if out.Namespace == "" {
		return s.listNamespaces(ctx, in)
	}
	out.Entries = []listedEntry{}
	since, limit := in.moment("since"), in.number("limit")
	if _, err := s.daemon.list(ctx, out.Namespace, 1); err != nil {
		return nil, err
	}
	after, complete := in.text("after"), true
	for looked := 0; ; {
		page, err := s.daemon.known(ctx, out.Namespace, in.text("prefix"), after, keysPage)
		if err != nil {
			return nil, err
		}
		complete = complete && page.Complete
		for i := range page.Entries {
			k := &page.Entries[i]
			if len(out.Entries) == limit || looked == keysLooked {
				out.Next, out.Note = after, noteNext
				return out, nil
			}
			after, looked = k.Key, looked+1
			if k.isDeleted() || !since.IsZero() && k.UpdatedAt < float64(since.UnixMicro())/1e6 {
				continue
			}
			out.Entries = append(out.Entries, listedEntry{k.Key, k.ListBytes, moment(k.UpdatedAt)})
		}
		if page.Next == nil {
			break
		}
	}
	if !complete {
		out.Note = noteIncomplete
	}
	return out, nil
}

func (s *toolset) listNamespaces(ctx context.Context, in arguments) (any, error) {
	if in["prefix"] != nil || in["since"] != nil {
		return nil, errNoNamespace
	}
	page, err := s.daemon.namespaces(ctx, in.text("after"), in.number("limit"))
	if err != nil {
		return nil, err
	}
	out := listResult{Namespaces: []listedNamespace{}}
	for _, n := range page.Namespaces {
		out.Namespaces = append(out.Namespaces, listedNamespace{n.Namespace, n.Entries})
	}
	if page.Next != nil {
		out.Next, out.Note = *page.Next, noteNext
	}
	return out, nil
}

var errNoNamespace = errors.New("namespace is missing: expected one with prefix or since, as those are about the keys of one namespace")
