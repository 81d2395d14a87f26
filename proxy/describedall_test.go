package proxy_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
)

// whole runs all tests of the package. Then it reports what the description names but no answer had: a
// status, a header, a field or a value of a field. A run of only some tests proves nothing about that.
type whole struct{ *testing.M }

func (w whole) Run() int {
	code := w.M.Run()
	if code != 0 || testing.Short() || !selectsAll() {
		return code
	}
	missing := described().missing()
	for _, each := range missing {
		fmt.Fprintln(os.Stderr, "openapi.yaml names what no answer had:", each)
	}
	if len(missing) > 0 {
		return 1
	}
	return code
}

// selectsAll reports whether no flag leaves out a test.
func selectsAll() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

// missing returns what the description names and no answer has had so far.
func (d *description) missing() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, op := range d.operations {
		for _, status := range slices.Sorted(maps.Keys(op.responses)) {
			name := fmt.Sprintf("%s %s %s", op.method, op.path, status)
			if status == "default" { // one operation that fails shows that any may fail
				name = op.responses[status].name
			}
			if !d.answered[name] {
				all = append(all, name)
			}
		}
	}
	for _, name := range d.headers {
		if !d.seen[name+" is sent"] {
			all = append(all, name)
		}
	}
	for _, of := range d.shapes {
		all = append(all, d.unseen(of.name, of.node)...)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// unseen returns what a schema names and no value has had.
func (d *description) unseen(at string, node any) (all []string) {
	of, _ := node.(map[string]any)
	at = nameOf(at, of)
	for _, value := range elements(of["enum"]) {
		if name := fmt.Sprintf("%s is %v", at, value); !d.seen[name] {
			all = append(all, name)
		}
	}
	for _, branch := range slices.Concat(elements(of["anyOf"]), elements(of["oneOf"])) {
		if data := dataOf(branch); data != nil {
			all = append(all, d.unseen(fmt.Sprintf("%s %s", at, eventOf(branch)), data)...)
			continue
		}
		all = append(all, d.unseen(at, branch)...)
	}
	properties, _ := of["properties"].(map[string]any)
	for name, each := range properties {
		field := fieldOf(at, name, each)
		if !d.seen[field] {
			all = append(all, field)
			continue
		}
		all = append(all, d.unseen(field, each)...)
	}
	return append(all, d.unseenItems(at, of)...)
}

func (d *description) unseenItems(at string, of map[string]any) []string {
	if of["items"] == nil {
		return nil
	}
	return d.unseen(at+"[]", of["items"])
}

// eventOf returns the event name in a branch of a stream's schema, and dataOf the schema of its data; nil if
// the branch describes no event.
func eventOf(branch any) any {
	properties, _ := branch.(map[string]any)["properties"].(map[string]any)
	event, _ := properties["event"].(map[string]any)
	return event["const"]
}

func dataOf(branch any) any {
	properties, _ := branch.(map[string]any)["properties"].(map[string]any)
	data, _ := properties["data"].(map[string]any)
	return data["contentSchema"]
}
