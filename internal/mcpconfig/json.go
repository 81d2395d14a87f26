package mcpconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// edit returns the text of a JSON file with the server added or removed. If nothing changes, it returns
// the same text.
func (c *Client) edit(text []byte, s Server, remove bool) (out []byte, err error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	list, entry := "/"+c.serversKey(), "/"+c.serversKey()+"/"+s.Name
	for _, place := range []string{"", list, entry} {
		if v := root.Find(place); v != nil && v.Value.Kind() != '{' {
			return nil, fmt.Errorf("not valid for %s: %q has to hold an object", c.Title, place)
		}
	}
	members := c.members(s)
	there := root.Find(entry) != nil
	switch {
	case remove && !there, !remove && there && holds(&root, entry, members):
		return text, nil
	case remove:
		err = root.Patch([]byte(`[{"op": "remove", "path": "` + entry + `"}]`))
	case root.Find(list) == nil:
		err = put(&root, list, map[string]any{s.Name: members})
	case !there:
		err = put(&root, entry, members)
	default:
		for _, name := range slices.Sorted(maps.Keys(members)) {
			err = errors.Join(err, put(&root, entry+"/"+name, members[name]))
		}
	}
	if err != nil {
		return nil, err
	}
	out = root.Pack()
	// If a member occurs twice, the client uses the last one, but a patch changes the first.
	if again, err := parse(out); err != nil || holds(&again, entry, members) == remove {
		return nil, errors.New("the server stands there in a way that botwired does not edit")
	}
	return out, nil
}

// indent is the indentation of a new member, relative to its object.
const indent = "  "

func parse(text []byte) (root hujson.Value, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if root, err = hujson.Parse(text); err != nil {
		return root, fmt.Errorf("not valid JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return root, nil
}

// holds reports whether an entry has the members, as the client reads the file. The entry is a path of
// two names.
func holds(root *hujson.Value, entry string, members map[string]any) bool {
	standard := root.Clone()
	standard.Standardize()
	var got, want any
	names := strings.Split(entry, "/")
	err := errors.Join(json.Unmarshal(standard.Pack(), &got), json.Unmarshal([]byte(compact(members)), &want))
	for _, name := range names[1:] {
		in, _ := got.(map[string]any)
		got = in[name]
	}
	in, _ := got.(map[string]any)
	for name, value := range want.(map[string]any) { // members are always an object
		if !reflect.DeepEqual(in[name], value) {
			return false
		}
	}
	return err == nil
}

// put sets a value at a path whose object exists. A new member gets its own line.
func put(root *hujson.Value, place string, value any) error {
	above, name := place[:strings.LastIndexByte(place, '/')], place[strings.LastIndexByte(place, '/')+1:]
	outer := strings.Repeat(indent, strings.Count(above, "/"))
	isNew := root.Find(place) == nil
	text, err := json.MarshalIndent(value, outer+indent, indent)
	if err != nil {
		return err
	}
	if err := root.Patch(fmt.Appendf(nil, `[{"op": "add", "path": %q, "value": %s}]`, above+"/"+name, text)); err != nil || !isNew {
		return err
	}
	object, _ := root.Find(above).Value.(*hujson.Object)
	last := &object.Members[len(object.Members)-1]
	if !bytes.HasSuffix(last.Name.BeforeExtra, []byte("\n")) {
		last.Name.BeforeExtra = append(last.Name.BeforeExtra, '\n')
	}
	last.Name.BeforeExtra = append(last.Name.BeforeExtra, outer+indent...)
	last.Value.BeforeExtra = hujson.Extra(" ")
	if !bytes.Contains(object.AfterExtra, []byte("\n")) {
		object.AfterExtra = append(object.AfterExtra, "\n"+outer...)
	}
	return nil
}
