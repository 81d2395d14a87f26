package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/botwired/botwired/internal/wire"
)

type effect uint8

const (
	reads    effect = iota
	replaces        // destructive and idempotent
	adds            // neither destructive nor idempotent
	undoes          // destructive, and not idempotent
)

func (e effect) hints() *sdk.ToolAnnotations {
	destroys, outside := e == replaces || e == undoes, false // the memory is a closed world
	return &sdk.ToolAnnotations{
		ReadOnlyHint: e == reads, DestructiveHint: &destroys, IdempotentHint: e == reads || e == replaces, OpenWorldHint: &outside,
	}
}

// tool is an MCP tool. Its arguments are both described to clients and checked from one table.
type tool struct {
	name, title, about string
	effect             effect
	arguments          []argument
	result             *jsonschema.Schema
	// run returns the result, to be encoded as JSON. Its error is shown to the agent.
	run func(ctx context.Context, in arguments) (any, error)
}

func resultOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // only for types in this package
	}
	schema.Properties[stateMember] = &jsonschema.Schema{Type: "string", Description: stateAbout}
	return schema
}

func (t *tool) addTo(server *sdk.Server) {
	server.AddTool(&sdk.Tool{
		Name: t.name, Title: t.title, Description: t.about, Annotations: t.effect.hints(),
		InputSchema: schemaOf(t.arguments), OutputSchema: t.result,
	}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ctx, state := listen(ctx)
		result, err := t.call(context.WithValue(ctx, authorKey{}, authorOf(req)), req.Params.Arguments)
		if err != nil {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}, nil //nolint:nilerr // the agent gets it
		}
		result = withState(result, state())
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: string(result)}},
			StructuredContent: json.RawMessage(result),
		}, nil
	})
}

type authorKey struct{}

func authorIn(ctx context.Context) string {
	author, _ := ctx.Value(authorKey{}).(string)
	return author
}

// authorOf returns the name of the client that makes a call: as its HTTP request says, as the client has
// introduced itself, or by its User-Agent. Over HTTP, clients of protocols before 2026-07-28 introduce
// themselves in another request.
func authorOf(req *sdk.CallToolRequest) string {
	var header http.Header
	if req.Extra != nil {
		header = req.Extra.Header
	}
	client := req.ClientInfo()
	if client == nil {
		client = &sdk.Implementation{}
	}
	return cmp.Or(wire.Author(header.Get(wire.AuthorHeader)), wire.Author(client.Name), wire.Product(header.Get("User-Agent")))
}

func (t *tool) call(ctx context.Context, raw json.RawMessage) ([]byte, error) {
	in, err := parseArguments(t.arguments, raw)
	if err != nil {
		return nil, err
	}
	out, err := t.run(ctx, in)
	if err != nil {
		return nil, err
	}
	return encode(out)
}

// encode returns JSON that does not escape <, > and &.
func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
