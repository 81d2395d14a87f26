package wire

import (
	"net/url"
	"strings"
	"unicode"
)

// AuthorHeader names the program that writes, in a request to botwired and in front of NATS.
const AuthorHeader = "Botwired-Author"

// StateHeader tells an agent of the state of its memory, in an answer of botwired's.
const StateHeader = "Botwired-State"

// AuthorPath begins the paths of a caller whose address names it, and who cannot send a header:
// /_botwired/as/NAME/memory/… is /memory/… with NAME as the author of its writes.
const AuthorPath = "/_botwired/as/"

// maxAuthor bounds an author, in characters.
const maxAuthor = 64

// Author returns the printable characters of a text, 64 at most.
func Author(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	characters := 0
	for end := range text {
		if characters == maxAuthor {
			return text[:end]
		}
		characters++
	}
	return text
}

// IsAuthor reports whether a text can name an author: it is 1 to 64 printable characters.
func IsAuthor(text string) bool { return text != "" && text == Author(text) }

// Product returns the first product that a User-Agent names, as an author.
func Product(agent string) string {
	if end := strings.IndexAny(agent, "/ ("); end >= 0 {
		agent = agent[:end]
	}
	return Author(agent)
}

// CutAuthor takes the author off a path, as it was sent, that begins with [AuthorPath]. An author that cannot
// name one is "". ok says whether the path begins so.
func CutAuthor(path string) (author, rest string, ok bool) {
	named, ok := strings.CutPrefix(path, AuthorPath)
	if !ok {
		return "", path, false
	}
	if end := strings.IndexByte(named, '/'); end >= 0 {
		named, rest = named[:end], named[end:]
	}
	if author, err := url.PathUnescape(named); err == nil && IsAuthor(author) {
		return author, rest, true
	}
	return "", rest, true
}

// IsByHand reports whether an author is a person: one of botwired's commands, or the dashboard.
func IsByHand(author string) bool { return author == "botwired" || author == "dashboard" }
