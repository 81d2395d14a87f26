package mcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxFollowed bounds how many resources the clients of one server follow at a time.
const maxFollowed = 1000

// following has a protocol's server tell its clients of changes. The library knows the clients of
// a URI; this knows the entry that the URI names.
type following struct {
	watcher   *watcher
	server    *sdk.Server
	namespace string // the only one, or empty

	mu   sync.Mutex // guards uris
	uris map[string]*followed
}

// followed is a URI, and by how many it is followed.
type followed struct {
	interest *interest
	times    int
}

func (f *following) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	id, ok := parseURI(uri)
	if !ok || f.namespace != "" && id.namespace != f.namespace {
		return sdk.ResourceNotFoundError(uri)
	}
	of, err := f.note(uri, id)
	if err != nil {
		return err
	}
	if err := f.watcher.follow(ctx, of); err != nil {
		f.drop(uri)
		return err
	}
	return nil
}

// note counts one more follower of a URI.
func (f *following) note(uri string, id entryID) (*interest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uris == nil {
		f.uris = make(map[string]*followed)
	}
	one := f.uris[uri]
	if one == nil {
		if len(f.uris) == maxFollowed {
			return nil, fmt.Errorf("%d resources are followed already: expected no more: end some subscriptions", maxFollowed)
		}
		one = &followed{interest: &interest{id: id, changed: func() { f.tell(uri) }}}
		f.uris[uri] = one
	}
	one.times++
	return one.interest, nil
}

func (f *following) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	f.drop(req.Params.URI)
	return nil
}

// drop counts one follower less.
func (f *following) drop(uri string) {
	f.mu.Lock()
	one := f.uris[uri]
	if one == nil {
		f.mu.Unlock()
		return
	}
	if one.times--; one.times > 0 {
		f.mu.Unlock()
		return
	}
	delete(f.uris, uri)
	f.mu.Unlock()
	f.watcher.forget(one.interest)
}

// tell notifies the clients that follow a URI. The library bounds how long that takes.
func (f *following) tell(uri string) {
	_ = f.server.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: uri}) // it has no errors
}

// The protocol from which on a client can follow resources without a session, and its method.
const (
	listenVersion = "2026-07-28"
	listenMethod  = "subscriptions/listen"
)

var errNoSubscriptions = &jsonrpc.Error{
	Code: jsonrpc.CodeInvalidRequest,
	Message: "this client speaks an older protocol than " + listenVersion + ", by which it can follow no resource over HTTP: " +
		"expected " + listenMethod + " of that protocol, or stdio (botwired mcp)",
}

// withoutSubscriptions says to clients of an older protocol, where nothing carries a notification
// to them, that they cannot follow resources.
func withoutSubscriptions(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch method {
		case "resources/subscribe", "resources/unsubscribe":
			return nil, errNoSubscriptions
		case listenMethod:
			if of, ok := req.(*sdk.SubscriptionsListenRequest); ok && of.ProtocolVersion() < listenVersion {
				return nil, errNoSubscriptions
			}
		}
		result, err := next(ctx, method, req)
		if hello, ok := result.(*sdk.InitializeResult); ok && hello.Capabilities.Resources != nil {
			hello.Capabilities.Resources.Subscribe = false // the library has made it for this answer
		}
		return result, err
	}
}
