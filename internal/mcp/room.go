package mcp

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// room is how much more an answer takes, so that it fits a client's limit: that of Claude Code, 25,000 tokens, is
// the smallest known. A client may count the text and the structured content, so everything weighs twice. The unit is
// a third of a token: a character of ASCII.
type room int

const (
	// wholeAnswer leaves 1,000 tokens for what is around a result.
	wholeAnswer room = 24_000 * 3
	// perTwoBytes is the weight of two bytes of a character that is not ASCII: no more than a token.
	perTwoBytes = 3
)

// weigh returns what a character of a value weighs: in the structured content as JSON, and in the text as JSON within
// JSON.
func weigh(c rune) room {
	switch {
	case c == '"' || c == '\\':
		return room(len(`\"`) + len(`\\\"`))
	case c == '\n' || c == '\r' || c == '\t':
		return room(len(`\n`) + len(`\\n`))
	case c < ' ' || c == '\u2028' || c == '\u2029' || c == '<' || c == '>' || c == '&':
		return room(len(`\u0000`) + len(`\\u0000`))
	case c < utf8.RuneSelf:
		return 1 + 1
	}
	return room((utf8.RuneLen(c)+1)/2) * (perTwoBytes + perTwoBytes)
}

// takes reports whether a part of a result fits, and if so takes its room.
func (r *room) takes(part any) bool {
	text, err := encode(part)
	if err != nil {
		return false
	}
	var weight room
	for _, c := range string(text) {
		weight += weighEncoded(c)
	}
	if weight > *r {
		return false
	}
	*r -= weight
	return true
}

// weighEncoded returns what a character of JSON weighs: it is escaped once less than that of a value.
func weighEncoded(c rune) room {
	switch c {
	case '"':
		return 1 + room(len(`\"`))
	case '\\':
		return 1 + room(len(`\\`))
	}
	return weigh(c)
}

// part returns the characters of a text from one on, at most most, and no more than fit. next is where the rest
// begins, or 0 if there is none.
func (r *room) part(text string, from, most int) (part string, characters, next int) {
	characters = utf8.RuneCountInString(text)
	var out strings.Builder
	at := 0
	for _, c := range text {
		if at >= from {
			weight := weigh(c)
			if at == from+most || weight > *r {
				return out.String(), characters, at
			}
			*r -= weight
			out.WriteRune(c)
		}
		at++
	}
	return out.String(), characters, 0
}

// share returns how much each of several texts may weigh, so that all of them fit: those that weigh less leave more
// to the others.
func (r room) share(texts []string) room {
	weights := make([]room, len(texts))
	for i, text := range texts {
		for _, c := range text {
			weights[i] += weigh(c)
		}
	}
	slices.Sort(weights)
	for i, weight := range weights {
		if each := r / room(len(weights)-i); weight > each {
			return each
		}
		r -= weight
	}
	return wholeAnswer
}
