package wire

import (
	"strings"
	"unicode"
)

// AuthorHeader names the program that writes, in a request to botwired and in front of NATS.
const AuthorHeader = "Botwired-Author"

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
