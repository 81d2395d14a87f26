package mcp_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// However large the values are, whatever is in them and whatever limit a call has, each answer fits a client's limit
// (the rig looks), and reading on gives the whole.
func TestEveryAnswerFitsAndReadingOnGivesAll(t *testing.T) {
	d := newDaemon(t)
	s := d.serve()
	for transport, c := range map[string]*client{"http": d.overHTTP(s), "stdio": d.overStdio(s)} {
		for name, unit := range map[string]string{
			"quotes": `"`, "control": "\x01", "cjk": "漢", "mixed": "Tea, \"<é漢😀>\"\n\u2028",
		} {
			if transport == "http" && name != "mixed" {
				continue // the tools are the same
			}
			namespace := transport + "-" + name
			value := strings.Repeat(unit, 100_000/len([]rune(unit)))
			for _, prefix := range []string{"1", "2"} {
				c.call("memory_write", args{"namespace": namespace, "key": "k", "value": prefix + value[1*len(unit):]}, &written{})
			}
			if got := c.readAll(namespace, "k"); got != "2"+value[len(unit):] {
				t.Errorf("%s: %d of %d bytes", namespace, len(got), len(value))
			}
			for _, with := range []args{{"limit": 100}, {"limit": 1}} {
				with["namespace"], with["key"] = namespace, "k"
				if got := c.wholeHistory(with); !slices.Equal(got, []string{"2" + value[len(unit):], "1" + value[len(unit):]}) {
					t.Errorf("%s: %v: the history has %d states", namespace, with, len(got))
				}
			}
			var undone struct{ Now, Undone historyState }
			if c.call("memory_undo", args{"namespace": namespace, "key": "k"}, &undone); undone.Now.Value == "" || undone.Undone.Value == "" {
				t.Errorf("%s: an undo shows %+v", namespace, undone)
			}
			d.flush()
		}
	}
}

// wholeHistory reads a history to its end, and each value to its end.
func (c *client) wholeHistory(with args) (values []string) {
	c.t.Helper()
	for {
		var page struct {
			history
			Next int
		}
		c.call("memory_history", with, &page)
		for _, state := range page.States {
			value := state.Value
			for rest := state; rest.Cut; {
				more := maps.Clone(with)
				more["after"], more["offset"], more["limit"] = rest.After, rest.Offset, 1
				var one history
				c.call("memory_history", more, &one)
				rest = one.States[0]
				value += rest.Value
			}
			values = append(values, value)
		}
		if page.Next == 0 {
			return values
		}
		with["after"] = page.Next
	}
}

// Lists and findings of any size come in parts that fit.
func TestListsFitAndReadingOnGivesAll(t *testing.T) {
	d := newDaemon(t)
	c := d.overHTTP(d.serve())
	var want []string
	for n := range 300 {
		key := fmt.Sprintf("%s%03d", strings.Repeat("k", 125), n)
		want = append(want, key)
		c.call("memory_write", args{"namespace": "n", "key": key, "value": strings.Repeat("\x01tea", 60)}, &written{})
	}
	for tool, with := range map[string]args{"memory_list": {"limit": 1000}, "memory_search": {"limit": 100, "query": "TEA"}} {
		var keys []string
		for with["namespace"] = "n"; ; {
			var page struct {
				list
				Matches []struct{ Key string }
			}
			c.call(tool, with, &page)
			keys = append(keys, page.keys()...)
			for _, m := range page.Matches {
				keys = append(keys, m.Key)
			}
			if page.Next == "" {
				break
			}
			with["after"] = page.Next
		}
		if !slices.Equal(keys, want) {
			t.Errorf("%s gives %d keys", tool, len(keys))
		}
	}
	var recent struct{ Entries []struct{ Preview string } }
	if c.call("memory_recent", args{"namespace": "n", "limit": 100}, &recent); len(recent.Entries) != 100 || recent.Entries[99].Preview == "" {
		t.Errorf("%d entries", len(recent.Entries))
	}
}
