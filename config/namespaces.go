package config

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
)

// overrides parses the setting "namespaces". resolveOverrides completes the policies later, when all
// general settings are known.
func overrides(at func(*Config) *[]Override) codec {
	const expected = "a list of {match: PATTERN, SETTING: VALUE, ...} (JSON in a flag or the environment)"
	return codecOf(at, "json", expected, printOverrides, func(v node, p places) ([]Override, error) {
		v, err := v.structured(isList)
		if err != nil {
			return nil, err
		}
		out := make([]Override, 0, len(v.items))
		var faults []error
		for i, item := range v.items {
			o, faulty := readOverride(item, fmt.Sprintf("entry %d", i+1), p)
			out, faults = append(out, o), append(faults, faulty...)
		}
		return out, errors.Join(faults...)
	})
}

func readOverride(item node, label string, p places) (o Override, faults []error) {
	o.Set = map[string]string{}
	if item.kind != isMapping {
		return o, []error{wrong(label, item.line, item, "")}
	}
	leaves := flatten(Settings(), item)
	if twice, found := repeated(leaves); found {
		return o, []error{wrong(label+", "+shorten(twice.key), twice.line, twice.value, "each setting once")}
	}
	matches := false
	for _, leaf := range leaves {
		matches = matches || leaf.key == "match"
		if err := o.read(leaf, p); err != nil {
			faults = append(faults, wrong(label+", "+shorten(leaf.key), leaf.line, leaf.value, err.Error()))
		}
	}
	if !matches {
		faults = append(faults, wrong(label, item.line, item, "match: PATTERN in it"))
	}
	return o, faults
}

func (o *Override) read(leaf pair, p places) error {
	if leaf.key == "match" {
		if leaf.value.kind != isText || !isPattern(leaf.value.text) {
			return expect("a pattern of namespaces, such as prod-* or test-[0-9]")
		}
		o.Match = leaf.value.text
		return nil
	}
	row, ok := find(overridable(), leaf.key)
	if !ok {
		may := append([]string{"match"}, names(overridable())...)
		expected := "match or one of the settings a namespace may have of its own: " + strings.Join(may[1:], ", ")
		return errors.New(hint(expected, "", leaf.key, may))
	}
	var scratch Config
	if err := row.codec.parse(&scratch, leaf.value, p); err != nil {
		return errors.New(row.codec.expected)
	}
	o.Set[row.Name] = row.codec.print(&scratch)
	return nil
}

// isPattern rejects malformed patterns, and patterns with characters that no namespace can have.
func isPattern(s string) bool {
	_, err := path.Match(s, "")
	return err == nil && s != "" && strings.Trim(s, namespaceChars+`*?[]^`) == ""
}

const namespaceChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func resolveOverrides(c *Config, p places) {
	for i := range c.Namespaces {
		o := &c.Namespaces[i]
		merged := *c
		for _, row := range overridable() {
			if value, ok := o.Set[row.Name]; ok {
				// A codec accepts every value that it prints: see TestPrintedValuesCanBeRead.
				_ = row.codec.parse(&merged, node{text: value}, p)
			}
		}
		o.Policy = merged.Policy
	}
}

func (o Override) sealed() bool { return o.Set["sealed"] == "true" }

// Sealing returns what decides which namespaces are sealed, for [IsSealed]: the patterns up to the last that
// seals.
func (c *Config) Sealing() (rules []string) {
	var all []string
	for _, o := range c.Namespaces {
		if o.sealed() {
			all = append(all, sealedRule+o.Match)
			rules = all
		} else {
			all = append(all, "plain "+o.Match)
		}
	}
	return rules
}

const sealedRule = "sealed "

// IsSealed reports whether the first of the rules that fits a namespace seals it.
func IsSealed(rules []string, namespace string) bool {
	for _, rule := range rules {
		_, pattern, _ := strings.Cut(rule, " ")
		if fits, _ := path.Match(pattern, namespace); fits {
			return strings.HasPrefix(rule, sealedRule)
		}
	}
	return false
}

func printOverrides(all []Override) string {
	out := make([]map[string]string, len(all))
	for i, o := range all {
		out[i] = map[string]string{"match": o.Match}
		maps.Copy(out[i], o.Set)
	}
	return marshal(out)
}
