package memory

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Conditions are a request's preconditions (RFC 9110, section 13.1). Entries have no modification date, so
// conditions on dates are ignored. LIST has none.
type Conditions struct{ match, noneMatch tagList }

// tagList is the value of If-Match or If-None-Match: entity tags, or an asterisk.
type tagList struct {
	given bool
	any   bool
	tags  []string // with their quotation marks, and without W/
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
		var tag string
		if tag, text, ok = cutTag(text); !ok {
			return tagList{}, false
		}
		list.tags = append(list.tags, tag)
	}
}

// cutTag cuts the first entity tag off a list. Only a comma may follow the tag.
func cutTag(list string) (tag, rest string, ok bool) {
	list = strings.TrimPrefix(list, "W/")
	text, isQuoted := strings.CutPrefix(list, `"`)
	text, rest, isClosed := strings.Cut(text, `"`)
	if !isQuoted || !isClosed || strings.ContainsFunc(text, notInTag) {
		return "", "", false
	}
	rest = strings.TrimLeft(rest, " \t")
	return list[:len(text)+2], rest, rest == "" || rest[0] == ','
}

// notInTag reports whether an entity tag may not contain a character (RFC 9110, section 8.8.3).
func notInTag(r rune) bool { return r <= ' ' || r == 0x7f }

// has reports whether the list names a state's tag, as it is or as a gateway has changed it.
func (l *tagList) has(state string) bool {
	return l.any || slices.ContainsFunc(l.tags, func(tag string) bool { return isOf(tag, state) })
}

// isOf reports whether a tag is a state's. A gateway that compresses answers makes their tags weak (nginx, Cloudflare),
// or adds the coding: "17-…-gzip" (Apache, Caddy), "17-…--gzip" (Jetty), "17-…;br" (LiteSpeed). It still names the same
// write, as no tag of botwired's continues another one. So the comparison is not the strong one of RFC 9110, section
// 8.8.3.2, which is for bytes that a gateway may have changed: an entry is a value, and has the same one in any coding.
func isOf(tag, state string) bool {
	coding, ok := strings.CutPrefix(tag, strings.TrimSuffix(state, `"`))
	return tag == state || ok && isCoding(strings.TrimSuffix(coding, `"`)) // guard 5.10
}

// isCoding reports whether a gateway may have added a text to a tag.
func isCoding(text string) bool {
	const separators = "-;:+./~_"
	return text != "" && strings.IndexByte(separators, text[0]) >= 0 && strings.Trim(text, separators+"abcdefghijklmnopqrstuvwxyz0123456789") == "" // guard 5.24
}

// HasNoneMatch reports whether there is an If-None-Match.
func (c *Conditions) HasNoneMatch() bool { return c.noneMatch.given }

// Changed reports whether there is an If-Match that does not name the tag.
func (c *Conditions) Changed(tag string) bool { return c.match.given && !c.match.has(tag) }

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
	return c.noneMatch.given && c.noneMatch.has(tag)
}

var errNotAsMatched = unmet("the entry is not as If-Match names it: it has changed, so read it again")

func unmet(why string) error { return wire.Detail(statusPreconditionFailed, why) }

// An entity tag (RFC 9110, section 8.8.3) names the write that made an entry's state. The tag of this
// journal's write has the sequence number, which survives settling and restarts. The tag of another
// host's write has a checksum of the times and the value that upstream shows. So each local write has
// its own tag, even if it puts the same value again.
//
// A new journal numbers from 1 again, and a recovered one may reuse the number of a lost write. So the tag
// includes the value: a caller with an old tag can at worst meet the value that it has read.
//
// A tag may change without a write: when the disk no longer has the journal, or the copy that knows the
// write. Then the caller is refused and reads again. The times that upstream gives a settled write do
// not change its tag: under one tag, updated_at may change from the daemon's to upstream's.

// tagSum is the number of bytes of the value's SHA-256 in a tag.
const tagSum = 12

const foreignTag = "upstream"

const tagSize = len(`"18446744073709551615-"`) + tagSum*4/3

func appendWriteTag(dst []byte, seq uint64, sum []byte) []byte {
	return appendTagEnd(strconv.AppendUint(append(dst, '"'), seq, 10), sum) // guard 5.8
}

func appendTagEnd(dst, sum []byte) []byte {
	dst = base64.RawURLEncoding.AppendEncode(append(dst, '-'), sum[:tagSum])
	return append(dst, '"')
}

// WriteTag returns the tag of a write of this journal.
func WriteTag(seq uint64, value string) string {
	var tag [tagSize]byte
	sum := sha256.Sum256([]byte(value))
	return string(appendWriteTag(tag[:0], seq, sum[:]))
}

func tagOf(s *journal.State) string {
	if s.WrittenAs != 0 {
		return WriteTag(s.WrittenAs, s.Value)
	}
	shown := make([]byte, 0, 2*8+len(s.Value))
	for _, at := range []float64{s.CreatedAt, s.UpdatedAt} {
		shown = binary.LittleEndian.AppendUint64(shown, math.Float64bits(at))
	}
	sum := sha256.Sum256(append(shown, s.Value...))
	var tag [tagSize]byte
	return string(appendTagEnd(append(tag[:0], `"`+foreignTag...), sum[:]))
}
