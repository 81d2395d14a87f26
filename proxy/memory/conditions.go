package memory

import (
	"strings"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
)

// Conditions are a request's preconditions (RFC 9110, section 13.1). Entries have no modification date, so
// conditions on dates are ignored. LIST has none.
type Conditions struct{ match, noneMatch tagList }

// tagList is the value of If-Match or If-None-Match: entity tags, or an asterisk.
type tagList struct {
	given bool
	any   bool
	tags  []entityTag
}

type entityTag struct {
	weak bool
	text string // with its quotation marks
}

// ParseConditions parses the lines of the headers If-Match and If-None-Match. It refuses a malformed header:
// ignoring it would write without the condition.
func ParseConditions(ifMatch, ifNoneMatch []string) (c Conditions, refusal error) {
	var ok bool
	if c.match, ok = parseTags(ifMatch); !ok {
		return c, malformed("If-Match") // guard 5.11
	}
	if c.noneMatch, ok = parseTags(ifNoneMatch); !ok {
		return c, malformed("If-None-Match")
	}
	return c, nil
}

func malformed(name string) error {
	return wire.Detail(statusBadRequest, name+" must be *, or entity tags as the ETag of an answer has them: "+
		`in quotation marks, with commas between them, such as "17-w0mNpUqJHwXoJ_Ww"`)
}

// parseTags parses all lines of a header as one list (RFC 9110, section 5.3).
func parseTags(lines []string) (list tagList, ok bool) {
	if len(lines) == 0 {
		return tagList{}, true
	}
	list.given = true
	text := strings.Join(lines, ",")
	if strings.Trim(text, " \t") == "*" {
		list.any = true
		return list, true
	}
	for {
		text = strings.TrimLeft(text, " \t,")
		if text == "" {
			return list, len(list.tags) > 0
		}
		var tag entityTag
		if tag, text, ok = cutTag(text); !ok {
			return tagList{}, false
		}
		list.tags = append(list.tags, tag)
	}
}

// cutTag cuts the first entity tag off a list. Only a comma may follow the tag.
func cutTag(list string) (tag entityTag, rest string, ok bool) {
	list, tag.weak = strings.CutPrefix(list, "W/")
	text, isQuoted := strings.CutPrefix(list, `"`)
	text, rest, isClosed := strings.Cut(text, `"`)
	if !isQuoted || !isClosed || strings.ContainsFunc(text, notInTag) {
		return entityTag{}, "", false
	}
	tag.text = list[:len(text)+2]
	rest = strings.TrimLeft(rest, " \t")
	return tag, rest, rest == "" || rest[0] == ','
}

// notInTag reports whether an entity tag may not contain a character (RFC 9110, section 8.8.3).
func notInTag(r rune) bool { return r <= ' ' || r == 0x7f }

// has reports whether the list names a state's tag. Unless weak is set, the comparison is strong: it
// ignores weak tags (RFC 9110, section 8.8.3.2).
func (l *tagList) has(state string, weak bool) bool {
	if l.any {
		return true
	}
	for _, tag := range l.tags {
		if tag.text == state && (weak || !tag.weak) { // guard 5.10
			return true
		}
	}
	return false
}

// HasNoneMatch reports whether there is an If-None-Match.
func (c *Conditions) HasNoneMatch() bool { return c.noneMatch.given }

// Changed reports whether there is an If-Match that does not name the tag.
func (c *Conditions) Changed(tag string) bool { return c.match.given && !c.match.has(tag, false) }

func (c *Conditions) given() bool { return c.match.given || c.noneMatch.given }

// refuseWrite returns a 412 if a condition does not hold. An absent entry's state has no body.
func (c *Conditions) refuseWrite(state *cache.Item) error {
	switch {
	case c.match.given && state.Body == nil:
		return unmet("If-Match wants the entry to exist, and it does not")
	case c.changed(state):
		return errNotAsMatched
	case !c.unchanged(state):
		return nil
	case c.noneMatch.any:
		return unmet("there is such an entry, and If-None-Match: * makes only a first value")
	}
	return unmet("the entry is still as If-None-Match names it")
}

func (c *Conditions) changed(state *cache.Item) bool {
	return c.Changed(state.Tag[0])
}

func (c *Conditions) unchanged(state *cache.Item) bool {
	return state.Body != nil && c.Unchanged(state.Tag[0])
}

// Unchanged reports whether an If-None-Match names the tag.
func (c *Conditions) Unchanged(tag string) bool {
	return c.noneMatch.given && c.noneMatch.has(tag, true)
}

var errNotAsMatched = unmet("the entry is not as If-Match names it: it has changed, so read it again")

func unmet(why string) error { return wire.Detail(statusPreconditionFailed, why) }
