package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// overrides parses the setting "namespaces".
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
			o, faulty := readOverride(item, entryName(i), p)
			out, faults = append(out, o), append(faults, faulty...)
		}
		return out, errors.Join(faults...)
	})
}

// entryName returns how messages call an entry of namespaces.
func entryName(i int) string { return fmt.Sprintf("entry %d", i+1) }

func readOverride(item node, label string, p places) (o Override, faults []error) {
	if item.kind != isMapping {
		return o, []error{wrong(label, item.line, item, "")}
	}
	leaves := flatten(Settings(), item)
	if twice, found := repeated(leaves); found {
		return o, []error{wrong(label+", "+shorten(twice.key), twice.line, twice.value, "each setting once")}
	}
	o.Line = item.line
	set := map[string]bool{}
	scratch := Config{}
	for _, leaf := range leaves {
		set[leaf.key] = true
		if err := o.read(leaf, &scratch, p); err != nil {
			faults = append(faults, wrong(label+", "+shorten(leaf.key), leaf.line, leaf.value, err.Error()))
		}
	}
	if !set["match"] {
		faults = append(faults, wrong(label, item.line, item, "match: PATTERN in it"))
	}
	o.Set = slices.DeleteFunc(names(overridable()), func(name string) bool { return !set[name] })
	o.Policy = scratch.Policy
	return o, faults
}

func (o *Override) read(leaf pair, to *Config, p places) error {
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
	if err := row.codec.parse(to, leaf.value, p); err != nil {
		return errors.New(row.codec.expected)
	}
	return nil
}

// isPattern rejects malformed patterns, and patterns that match no namespace.
func isPattern(s string) bool {
	_, err := path.Match(s, "")
	return err == nil && strings.Trim(s, namespaceChars+`*?[]^`) == "" && counts([]rule{{pattern: parseGlob(s)}})
}

func (o *Override) matches(namespace string) bool {
	ok, _ := path.Match(o.Match, namespace)
	return ok
}

// take replaces the settings that an override sets. A loop over the table of settings would allocate:
// each request asks for its namespace's policy.
func (p *Policy) take(o *Override) {
	for _, name := range o.Set {
		switch name {
		case "cache.fresh_for":
			p.FreshFor = o.Policy.FreshFor
		case "cache.stale_while_revalidate":
			p.StaleWhileRevalidate = o.Policy.StaleWhileRevalidate
		case "cache.stale_if_error":
			p.StaleIfError = o.Policy.StaleIfError
		case "cache.absent_for":
			p.AbsentFor = o.Policy.AbsentFor
		case "flush.linger":
			p.Linger = o.Policy.Linger
		case "quota.writes_per_day":
			p.Quota.WritesPerDay = o.Policy.Quota.WritesPerDay
		case "quota.period":
			p.Quota.Period = o.Policy.Quota.Period
		case "quota.max_age":
			p.Quota.MaxAge = o.Policy.Quota.MaxAge
		case "quota.namespace_bytes":
			p.Quota.NamespaceBytes = o.Policy.Quota.NamespaceBytes
		case "offline":
			p.Offline = o.Policy.Offline
		case "write_through":
			p.WriteThrough = o.Policy.WriteThrough
		case "prefetch":
			p.Prefetch = o.Policy.Prefetch
		case "sealed":
			p.Sealed = o.Policy.Sealed
		}
	}
}

func (o Override) sets(name string) bool { return slices.Contains(o.Set, name) }

func (o Override) seals() bool { return o.sets("sealed") && o.Policy.Sealed }

// For returns the settings that a namespace may have of its own.
func (l *Loaded) For(namespace string) (values []Value) {
	c := &Config{Policy: l.Config.For(namespace)}
	for _, row := range overridable() {
		v := Value{Name: row.Name, Value: row.codec.print(c), Source: l.Source(row.Name)}
		for i := range l.Config.Namespaces {
			if o := &l.Config.Namespaces[i]; o.sets(row.Name) && o.matches(namespace) {
				v.Source = l.Source("namespaces")
				v.Source.Match = o.Match
				if v.Source.Layer == FromFile {
					v.Source.Line = o.Line
				}
				break
			}
		}
		v.Source.Layer = cmp.Or(v.Source.Layer, FromDefault) // no general setting has its name
		values = append(values, v)
	}
	return values
}

// IsNamespace reports whether a namespace may have this name.
func IsNamespace(name string) bool {
	return name != "" && len(name) <= maxNamespace && strings.Trim(name, namespaceChars) == ""
}

// Sealing returns what decides which namespaces are sealed, for [IsSealed]: the patterns of the entries
// that set it, up to the last that seals.
func (c *Config) Sealing() (rules []string) {
	var all []string
	for _, o := range c.Namespaces {
		switch {
		case o.seals():
			all = append(all, sealedRule+o.Match)
			rules = all
		case o.sets("sealed"):
			all = append(all, "plain "+o.Match)
		}
	}
	return rules
}

// IsPublic reports whether everybody who knows the name of a namespace can read and write it upstream: BotWire has no
// authentication, and the namespace is not sealed.
func (c *Config) IsPublic(namespace string) bool {
	return isBotWires(c.Upstream.URL) && !c.For(namespace).Sealed
}

// shadowed calls found for each setting of an entry that counts for no namespace: an earlier entry gives another
// value to each one that the entry matches.
func (c *Config) shadowed(found func(i int, o *Override, setting string)) {
	before := map[string][]rule{} // by setting
	for i := range c.Namespaces {
		o := &c.Namespaces[i]
		pattern := parseGlob(o.Match)
		for _, name := range o.Set {
			before[name] = append(before[name], rule{pattern, o.value(name)})
			if !counts(before[name]) {
				found(i, o, name)
			}
		}
	}
}

// value returns the value of a setting that the override sets, as users write it.
func (o *Override) value(name string) string {
	row, _ := find(overridable(), name)
	return row.codec.print(&Config{Policy: o.Policy})
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
		for _, name := range o.Set {
			out[i][name] = o.value(name)
		}
	}
	return marshal(out)
}
