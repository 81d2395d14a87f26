package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/proxy/openapi"
	"github.com/botwired/botwired/proxy/surface"
)

// description is openapi.yaml. Each answer of this package's tests is checked against it: status, headers,
// media type and fields must be described. Clients must accept unknown fields, but here one fails the test.
type description struct {
	operations []*describedOperation
	shapes     []*shape
	headers    []string

	mu       sync.Mutex      // guards answered and seen
	answered map[string]bool // "get /path 200"
	seen     map[string]bool // a field or a value of a shape
}

type describedOperation struct {
	method, path string // the method in lower case, as in the description
	matches      *regexp.Regexp
	node         map[string]any
	responses    map[string]*describedResponse // by status, or "default"
}

type describedResponse struct {
	name    string
	headers map[string]*describedHeader
	content map[string]*shape // by media type
	item    *shape            // an item of a stream or of JSON Lines; nil otherwise
}

type describedHeader struct {
	name     string
	required bool
	shape    *shape
}

// shape is a schema with all references resolved and every object closed.
type shape struct {
	name   string
	node   any
	schema *jsonschema.Schema
}

// described reads the description once.
var described = sync.OnceValue(func() *description {
	doc, err := openapi.Lazy("1.2.3")()
	if err != nil {
		panic(err)
	}
	var root map[string]any
	if err := json.Unmarshal(doc.JSON, &root); err != nil {
		panic(err)
	}
	root = resolved{root}.all(root).(map[string]any)
	d := &description{answered: make(map[string]bool), seen: make(map[string]bool)}
	paths := root["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range []string{"get", "put", "post", "delete"} {
			if node, ok := item[method].(map[string]any); ok {
				node["parameters"] = slices.Concat(elements(item["parameters"]), elements(node["parameters"]))
				d.operations = append(d.operations, d.operation(method, path, node))
			}
		}
	}
	return d
})

func elements(node any) []any {
	items, _ := node.([]any)
	return items
}

var placeholder = regexp.MustCompile(`\\\{[a-z]+\\\}`)

func (d *description) operation(method, path string, node map[string]any) *describedOperation {
	op := &describedOperation{method: method, path: path, node: node, responses: make(map[string]*describedResponse)}
	op.matches = regexp.MustCompile("^" + placeholder.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
	for status, response := range node["responses"].(map[string]any) {
		op.responses[status] = d.response(fmt.Sprintf("%s %s %s", method, path, status), response.(map[string]any))
	}
	return op
}

func (d *description) response(name string, node map[string]any) *describedResponse {
	r := &describedResponse{name: nameOf(name, node), headers: make(map[string]*describedHeader), content: make(map[string]*shape)}
	headers, _ := node["headers"].(map[string]any)
	for header, each := range headers {
		of := each.(map[string]any)
		required, _ := of["required"].(bool)
		called := nameOf(name+" "+header, of)
		r.headers[http.CanonicalHeaderKey(header)] = &describedHeader{called, required, d.shape(called, of["schema"])}
		d.headers = append(d.headers, called)
	}
	content, _ := node["content"].(map[string]any)
	for mediaType, each := range content {
		of := each.(map[string]any)
		r.content[mediaType] = d.shape(name, of["schema"])
		if item, ok := of["x-itemSchema"]; ok {
			r.item = d.shape(name+" item", item)
		}
	}
	return r
}

func (d *description) shape(name string, node any) *shape {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	if err := c.AddResource("mem:///schema.json", node); err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	s := &shape{name: name, node: node, schema: c.MustCompile("mem:///schema.json")}
	d.shapes = append(d.shapes, s)
	return s
}

// resolved resolves references within a document. No reference leads to itself.
type resolved struct{ root map[string]any }

// componentName holds the reference in the schema that it led to: what was seen counts for all places with
// that reference.
const componentName = "x-component"

// originName holds, in a field of a merged object, the component that the field comes from.
const originName = "x-origin"

// fieldOf returns the name for an object's field in seen.
func fieldOf(at, name string, node any) string {
	of, _ := node.(map[string]any)
	if origin, ok := of[originName].(string); ok {
		at = strings.TrimPrefix(origin, "#/components/")
	}
	return at + "." + name
}

// nameOf returns the name for a node's fields in seen.
func nameOf(at string, node any) string {
	of, _ := node.(map[string]any)
	if ref, ok := of[componentName].(string); ok {
		return strings.TrimPrefix(ref, "#/components/")
	}
	return at
}

func (r resolved) all(node any) any {
	switch node := node.(type) {
	case []any:
		out := make([]any, len(node))
		for i := range node {
			out[i] = r.all(node[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(node))
		for name, each := range node {
			if name != "$ref" && name != "allOf" {
				out[name] = r.all(each)
			}
		}
		if ref, ok := node["$ref"].(string); ok {
			target, _ := r.all(r.lookUp(ref)).(map[string]any)
			out[componentName] = ref
			for name, each := range target {
				if _, overridden := out[name]; !overridden {
					out[name] = each
				}
			}
		}
		for _, part := range elements(node["allOf"]) {
			join(out, r.all(part).(map[string]any))
		}
		if _, open := out["additionalProperties"]; out["type"] == "object" && out["properties"] != nil && !open {
			out["additionalProperties"] = false
		}
		return out
	}
	return node
}

func (r resolved) lookUp(ref string) any {
	var node any = r.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		node = node.(map[string]any)[part]
	}
	if node == nil {
		panic("there is no " + ref)
	}
	return node
}

// join merges the parts of an allOf into one object, so that it can be closed.
func join(out, part map[string]any) {
	out["type"] = "object"
	properties, ok := out["properties"].(map[string]any)
	if !ok {
		properties = make(map[string]any)
		out["properties"] = properties
	}
	for name, each := range part["properties"].(map[string]any) {
		if origin, ok := part[componentName]; ok { // what was seen of it counts for the component
			each = map[string]any{"anyOf": []any{each}, originName: origin}
		}
		properties[name] = each
	}
	out["required"] = slices.Concat(elements(out["required"]), elements(part["required"]))
}

// unlisted are HTTP's own headers, which the description does not list.
var unlisted = []string{"Allow", "Connection", "Content-Length", "Content-Type", "Date"}

// find returns the operation of a request; nil if there is none.
func (d *description) find(method, path string) *describedOperation {
	switch route := wire.ParseRoute(path); {
	case route.Kind == wire.EntryRoute:
		path = "/memory/namespace/key"
	case route.Kind == wire.ListRoute:
		path = "/memory/namespace"
	case path+"/" == surface.Prefix:
		path = surface.Prefix
	}
	if method == http.MethodHead && strings.HasPrefix(path, surface.Prefix) {
		method = http.MethodGet
	}
	of := d.pathOf(path)
	i := slices.IndexFunc(d.operations, func(op *describedOperation) bool {
		return op.path == of && op.method == strings.ToLower(method)
	})
	if i < 0 {
		return nil
	}
	return d.operations[i]
}

// pathOf returns the described path that matches a path. One without placeholders comes first.
func (d *description) pathOf(path string) (found string) {
	for _, op := range d.operations {
		if op.matches.MatchString(path) && (found == "" || strings.Contains(found, "{")) {
			found = op.path
		}
	}
	return found
}

// check returns what is wrong with an answer.
func (d *description) check(method, path string, status int, header http.Header, body []byte) error {
	op := d.find(method, path)
	if op == nil {
		if (status < 300) && (strings.HasPrefix(path, "/memory/") || strings.HasPrefix(path, surface.Prefix) && !strings.HasPrefix(path, surface.Prefix+"assets/")) {
			return fmt.Errorf("openapi.yaml has no %s %s", method, path)
		}
		return nil
	}
	named := strconv.Itoa(status)
	r := op.responses[named]
	if r == nil {
		named, r = "default", op.responses["default"]
		if status < 500 && r.headers["Retry-After"] == nil { // upstream's answer
			return fmt.Errorf("openapi.yaml names no status %d of %s %s", status, op.method, op.path)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered[fmt.Sprintf("%s %s %s", op.method, op.path, named)] = true
	d.answered[r.name] = true
	err := errors.Join(d.checkHeader(r, header), d.checkBody(r, method, header.Get("Content-Type"), body))
	if err != nil {
		return fmt.Errorf("%s %s, %d, is not as openapi.yaml describes it: %w", op.method, op.path, status, err)
	}
	return nil
}

func (d *description) checkHeader(r *describedResponse, header http.Header) (err error) {
	for name, values := range header {
		if r.headers[name] == nil && !slices.Contains(unlisted, name) {
			err = errors.Join(err, fmt.Errorf("the header %s: %q is not named", name, values))
		}
	}
	for name, of := range r.headers {
		value := header.Get(name)
		switch {
		case value == "" && of.required:
			err = errors.Join(err, fmt.Errorf("the header %s is missing", name))
		case value != "":
			d.seen[of.name+" is sent"] = true
			err = errors.Join(err, d.hold(of.shape, fromText(of.shape.node, value)))
		}
	}
	return err
}

// fromText converts the text of a header or a parameter to its schema's type.
func fromText(node any, text string) any {
	of, _ := node.(map[string]any)
	switch of["type"] {
	case "integer", "number":
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	case "boolean":
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return text
}

func (d *description) checkBody(r *describedResponse, method, contentType string, body []byte) (err error) {
	if len(body) == 0 && (method == http.MethodHead || len(r.content) == 0) {
		return nil
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	of := r.content[mediaType]
	switch {
	case of == nil:
		return fmt.Errorf("the media type %q is not named", contentType)
	case r.item != nil && mediaType == linesType:
		for line := range strings.Lines(string(body)) {
			err = errors.Join(err, d.checkJSON(r.item, []byte(line)))
		}
		return err
	case mediaType == "application/json":
		return d.checkJSON(of, body)
	}
	return nil
}

func (d *description) checkJSON(of *shape, text []byte) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	return d.hold(of, doc)
}

// checkEvent returns what is wrong with an event of a stream.
func (d *description) checkEvent(path string, e sse.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.find(http.MethodGet, path).responses["200"].item
	if err := of.schema.Validate(map[string]any{"event": e.Name, "data": string(e.Data)}); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(e.Data)))
	if err != nil {
		return err
	}
	for _, branch := range elements(of.node.(map[string]any)["oneOf"]) {
		if eventOf(branch) == e.Name {
			d.note(of.name+" "+e.Name, dataOf(branch), doc)
		}
	}
	return nil
}

// hold checks a value against a shape, and notes which fields it has.
func (d *description) hold(of *shape, value any) error {
	if err := of.schema.Validate(value); err != nil {
		return fmt.Errorf("%s: %w in %.500v", of.name, err, value)
	}
	d.note(of.name, of.node, value)
	return nil
}

// note notes which fields and listed values have occurred.
func (d *description) note(at string, node, value any) {
	of, _ := node.(map[string]any)
	at = nameOf(at, of)
	for _, branch := range slices.Concat(elements(of["anyOf"]), elements(of["oneOf"])) {
		d.note(at, branch, value)
	}
	if of["enum"] != nil {
		d.seen[fmt.Sprintf("%s is %v", at, value)] = true
	}
	switch value := value.(type) {
	case map[string]any:
		properties, _ := of["properties"].(map[string]any)
		for name, each := range value {
			if properties[name] != nil {
				field := fieldOf(at, name, properties[name])
				d.seen[field] = true
				d.note(field, properties[name], each)
			}
		}
	case []any:
		for _, each := range value {
			d.note(at+"[]", of["items"], each)
		}
	}
}
