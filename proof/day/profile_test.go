package day

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime/pprof"
	"slices"
)

// partLabel names whose work a goroutine does. Goroutines hand it on to those that they start; the
// runtime's own, such as the garbage collector's, have none.
const partLabel = "part"

const partAgents, partUpstream, partDaemon = "agents", "upstream", "daemon"

// as does work in the name of a part.
func as(part string, work func()) {
	pprof.Do(context.Background(), pprof.Labels(partLabel, part), func(context.Context) { work() })
}

var errProfile = errors.New("the profile is not as pprof's format has it")

// shares returns each part's share of a CPU profile's samples, by label; "" for those without one.
func shares(profile []byte) (map[string]float64, error) {
	packed, err := gzip.NewReader(bytes.NewReader(profile))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		return nil, err
	}
	var samples [][]byte
	var table []string
	err = fields(text, func(number int, _ uint64, content []byte) error {
		switch number {
		case 2:
			samples = append(samples, content)
		case 6:
			table = append(table, string(content))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, of := 0.0, make(map[string]float64)
	for _, s := range samples {
		part, count, err := sample(s, slices.Index(table, partLabel), table)
		if err != nil {
			return nil, err
		}
		of[part] += count
		all += count
	}
	for part := range of {
		of[part] /= all
	}
	return of, nil
}

// sample reads a Sample of pprof's profile.proto, as Go's runtime writes it: its first value, which is how
// often it was seen, and the part in its labels.
func sample(text []byte, label int, table []string) (part string, count float64, err error) {
	valued := false
	err = fields(text, func(number int, n uint64, content []byte) error {
		switch {
		case number == 2 && !valued:
			count, valued = float64(n), true
		case number == 3:
			var key, str int
			if err := fields(content, func(number int, n uint64, _ []byte) error {
				switch number {
				case 1:
					key = int(n)
				case 2:
					str = int(n)
				}
				return nil
			}); err != nil {
				return err
			}
			if str >= len(table) {
				return errProfile
			}
			if key == label {
				part = table[str]
			}
		}
		return nil
	})
	return part, count, err
}

// fields calls do with each field of a protobuf message that is a number or bytes.
func fields(text []byte, do func(number int, n uint64, content []byte) error) error {
	const varint, fixed64, delimited = 0, 1, 2
	for len(text) > 0 {
		tag, size := binary.Uvarint(text)
		if size <= 0 {
			return errProfile
		}
		n, content := uint64(8), []byte(nil)
		if text = text[size:]; tag&7 != fixed64 {
			if n, size = binary.Uvarint(text); size <= 0 {
				return errProfile
			}
			text = text[size:]
		}
		if tag&7 == delimited || tag&7 == fixed64 {
			if n > uint64(len(text)) {
				return errProfile
			}
			content, text = text[:n], text[n:]
		} else if tag&7 != varint {
			return errProfile
		}
		if err := do(int(tag>>3), n, content); err != nil {
			return err
		}
	}
	return nil
}
