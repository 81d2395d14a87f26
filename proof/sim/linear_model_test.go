package sim

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// step returns the possible states of an entry after an operation: none if the
// operation cannot have had this answer, two if its outcome is unknown.
func (s state) step(o operation) []state {
	var after state
	if o.did == put {
		after = state{true, o.value}
	}
	met := s.meets(o)
	if o.code == 0 {
		if !met && !o.through { // what is carried out late goes by no condition any more
			return []state{s}
		}
		return []state{s, after}
	}
	var possible bool
	switch {
	case o.code == http.StatusPreconditionFailed:
		after, possible = s, !met && (s.present || o.did == put)
	case o.did == put:
		possible = met
	case o.did == remove && o.wants != wantsNothing:
		possible = s.present == (o.code == http.StatusOK) && (met || !s.present)
	case o.did == remove:
		possible = s.present == (o.code == http.StatusOK) || (o.code == http.StatusOK && !o.sure)
	case o.did == get:
		after, possible = s, s == state{o.code == http.StatusOK, o.saw}
	case o.did == list:
		after, possible = s, s.listed() == o.bytes
	}
	if !possible {
		return nil
	}
	return []state{after}
}

// meets reports whether a state is as an operation's condition wants it. All values are
// different, so a value stands for its tag.
func (s state) meets(o operation) bool {
	same := s == state{true, o.expected.value}
	switch o.wants {
	case wantsNone:
		return !s.present
	case wantsSame:
		return same
	case wantsOther:
		return !same
	}
	return true
}

// listed returns the size that a listing shows, or -1 for an entry that it lacks.
func (s state) listed() int {
	if !s.present {
		return -1
	}
	return wire.ListBytes(s.value)
}

// register is the model of one entry.
var register = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, input, _ any) []any {
		var out []any
		for _, next := range s.(state).step(input.(operation)) {
			out = append(out, next)
		}
		return out
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}).ToModel()

// checkPatience bounds one check: a history that takes longer is too long, not wrong.
const checkPatience = 2 * time.Minute

// check returns what is wrong with a history. It must not be called in a bubble,
// where its patience would be over at once.
func check(operations []operation) string {
	for id, of := range byEntry(operations) {
		switch result, _ := linearize(of); result {
		case porcupine.Illegal:
			return report(id, of)
		case porcupine.Unknown:
			return fmt.Sprintf("%s: %d operations are too many to be checked", id, len(of))
		}
	}
	return ""
}

func linearize(operations []operation) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(register, toPorcupine(operations), checkPatience)
}

// report shows the shortest beginning of an entry's history that is already wrong, and
// keeps a picture of it.
func report(id journal.ID, of []operation) string {
	var ends []int64
	for _, o := range of {
		ends = append(ends, o.answer)
	}
	slices.Sort(ends)
	first, _ := slices.BinarySearchFunc(ends, true, func(end int64, _ bool) int {
		if result, _ := linearize(until(of, end)); result == porcupine.Illegal {
			return 0
		}
		return -1
	})
	wrong := until(of, ends[min(first, len(ends)-1)])
	_, info := linearize(wrong)
	return fmt.Sprintf("contract 5, 6, 7: %s has no order of operations that explains the last of these answers:\n%spicture: %s",
		id, excerpt(wrong), pictureOf(register, info))
}

// pictureOf puts the picture where it outlives the test, for the person who reads the
// failure.
func pictureOf(model porcupine.Model, info porcupine.LinearizationInfo) string {
	dir, err := os.MkdirTemp("", "linear-")
	if err != nil {
		return err.Error()
	}
	path := filepath.Join(dir, "history.html")
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return err.Error()
	}
	return path
}
