package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/botwired/botwired/journal"
)

const (
	// uncertain is how far a host may be wrong about upstream's clock: it may have seen nothing of
	// it but a Date, which leaves out the second and may be a second old.
	uncertain = 3 * time.Second
	// blind bounds the time for which a host cannot see what it overwrites: from the look of its
	// fence, or a confirmation of its own of late, until its request is carried out. That is a
	// round trip and some pauses of the simulated network.
	blind = time.Second
)

// attempt is one time that a write of a host's was carried out upstream, or the one time that it
// was given up for another host's. It is an operation of the model of several hosts.
type attempt struct {
	host, value string
	at          time.Time // when it was written
	lost        bool
	winner      string  // that it was given up for
	raced       bool    // another host wrote within the time for which this one was blind
	saw         *string // of a read instead of a write
}

// held is what upstream holds, for the model: a value, and when upstream got it for the first
// time and for the last.
type held struct {
	host, value string
	first, last time.Time
}

// fencedModel is the model of one entry that several hosts write, each through its fence: a register
// in which the later write by time wins. A host's write has the time at which it was written,
// another host's state that of its arrival upstream, and within the uncertainty either may win
// (contract 17).
func fencedModel(known map[string]held) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return held{} },
		Step: func(s, input, _ any) (bool, any) {
			now, a := s.(held), input.(attempt)
			switch {
			case a.saw != nil:
				return now.value == *a.saw, now
			case a.lost:
				return now.value == a.winner && !now.last.Add(uncertain).Before(a.at), now
			}
			return a.raced || now.host == a.host || !now.first.After(a.at.Add(uncertain)), known[a.value]
		},
		DescribeOperation: func(input, _ any) string {
			switch a := input.(attempt); {
			case a.saw != nil:
				return "host " + a.host + " reads " + *a.saw
			case a.lost:
				return fmt.Sprintf("%s of host %s gives way to %s", a.value, a.host, a.winner)
			default:
				return fmt.Sprintf("%s of host %s, raced %t", a.value, a.host, a.raced)
			}
		},
		DescribeState: func(s any) string { return s.(held).value },
	}
}

// checkFenced returns what is wrong with the attempts and reads of one entry.
func checkFenced(id journal.ID, writes []overwriting, operations []porcupine.Operation) error {
	known := make(map[string]held)
	for _, w := range writes {
		k := known[w.value]
		if k.value == "" {
			k = held{host: w.host, value: w.value, first: w.at}
		}
		k.last = w.at
		known[w.value] = k
	}
	model := fencedModel(known)
	result, info := porcupine.CheckOperationsVerbose(model, operations, checkPatience)
	if result == porcupine.Ok {
		return nil
	}
	return fmt.Errorf("contract 17: the writes to %s have no order in which the later one wins (%s); picture: %s\n%s",
		id, result, pictureOf(model, info), describe(model, operations))
}

func describe(model porcupine.Model, operations []porcupine.Operation) (text string) {
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, o := range operations {
		text += fmt.Sprintf("  %s to %s  %s\n", time.Unix(0, o.Call).UTC().Format("15:04:05.000"),
			time.Unix(0, o.Return).UTC().Format("15:04:05.000"), model.DescribeOperation(o.Input, nil))
	}
	return text
}

// raced reports whether another host's write was carried out while the host of the n-th one was
// blind, and whether the host was blind for too long.
func raced(writes []overwriting, n int) (raced bool, err error) {
	o := writes[n]
	for _, other := range writes[:n] {
		if other.host != o.host && !other.at.Before(o.seen) { // within one moment, nobody knows
			raced = true
		}
	}
	if raced && o.window() > blind {
		return true, fmt.Errorf("contract 17: host %s overwrites another's state with %s, and has not looked for %s", o.host, o.value, o.window())
	}
	return raced, nil
}
