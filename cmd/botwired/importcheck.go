package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/botwired/botwired/proxy"
)

// newLineScanner reads lines as long as an export's may be.
func newLineScanner(r io.Reader) *bufio.Scanner {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	return scanner
}

// checkImport looks through a file and counts its entries. Every line is to be an entry, or the
// end of those before it. Behind the last entry there is to be an end, unless the file is a partial
// one. lacks says what the export has been known to lack.
func checkImport(file io.Reader, partial bool) (entries int, lacks string, err error) {
	scanner := newLineScanner(file)
	number, open, ended := 0, 0, partial // open entries are those that no end has counted
	for scanner.Scan() {
		number++
		raw := bytes.TrimSpace(scanner.Bytes())
		if len(raw) == 0 {
			continue
		}
		line, err := proxy.ParseImportLine(raw)
		switch {
		case err != nil:
			return 0, "", fmt.Errorf("line %d: %w", number, err)
		case line.End == nil:
			open++
			entries++
			continue
		case line.End.Entries != open && !partial:
			return 0, "", fmt.Errorf("line %d ends %s, and there are %d before it: some lines are missing, or are too many; --partial imports those that there are",
				number, plural(line.End.Entries, "entry"), open)
		}
		open, ended = 0, true
		if !line.End.Complete {
			lacks = line.End.Namespace + ": " + line.End.Why
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return 0, "", fmt.Errorf("line %d is longer than any entry", number+1)
	case err != nil:
		return 0, "", err
	case !ended && number == 0:
		return 0, "", errors.New("it is empty")
	case (open > 0 || !ended) && !partial:
		return 0, "", fmt.Errorf("it is cut off after line %d: its last line is none that ends an export; --partial imports what there is", number)
	}
	return entries, lacks, nil
}
