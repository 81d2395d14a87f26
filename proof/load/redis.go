package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// RedisAnswer is the [Parser] of Redis's protocol (RESP2) for a simple string or a bulk
// string. It refuses an error and an absent value.
func RedisAnswer(read []byte) (length int, err error) {
	line := bytes.IndexByte(read, '\n') + 1
	if line < len("+\r\n") {
		return 0, nil
	}
	content := read[1 : line-len("\r\n")]
	switch read[0] {
	case '+':
		return line, nil
	case '$':
		n, err := strconv.Atoi(string(content))
		if err != nil || n < 0 {
			return 0, errors.New("no value")
		}
		return line + n + len("\r\n"), nil
	}
	return 0, fmt.Errorf("answered %q", read[:min(len(read), maxShown)])
}

// AppendCommand appends the head of a command of n words; [AppendWord] appends each.
func AppendCommand(dst []byte, n int) []byte { return appendLength(dst, '*', n) }

// AppendWord appends one word of a command.
func AppendWord[S ~string | ~[]byte](dst []byte, word S) []byte {
	return append(append(AppendLength(dst, len(word)), word...), "\r\n"...)
}

// AppendLength appends the head of a word of n bytes. The word and a line end have to
// follow.
func AppendLength(dst []byte, n int) []byte { return appendLength(dst, '$', n) }

func appendLength(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}
