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

// register is the state of an entry in the model.
type register struct {
	state
	// unsure says that the entry may be in any state until the next write.
	unsure bool
	// again says that an undo or a retry has written the value, which another write has written before.
	// A tag of that value may then be this state's, or the earlier one's.
	again bool
	// made is when the write that made the state was answered.
	made int64
	// began is when its request was called; 0 if another host's later write may be older than that.
	began int64
}

func (r register) String() string {
	if r.unsure {
		return "any state"
	}
	return r.state.String()
}

// step returns the possible states of an entry after an operation: none if the
// operation cannot have had this answer, two or more if its outcome is unknown.
func (r register) step(o operation) []register {
	if o.did == purge && r.made > o.call { // it leaves what was written after it began
		return append([]register{r}, o.leaves())
	}
	if o.did == foreign {
		return r.overtaken(o)
	}
	if r.unsure {
		return o.decides()
	}
	after := o.leaves()
	met, unmet := r.meets(o)
	if o.code == 0 {
		if !met {
			return []register{r}
		}
		return []register{r, after}
	}
	var possible bool
	switch {
	case o.code == http.StatusPreconditionFailed:
		after, possible = r, unmet && (r.present || o.did == put)
	case o.did == put:
		possible = met
	case o.did == remove && o.wants != wantsNothing:
		possible = r.present == (o.code == http.StatusOK) && (met || !r.present)
	case o.did == remove:
		possible = r.present == (o.code == http.StatusOK) || (o.code == http.StatusOK && !o.sure)
	case o.did == undo, o.did == bringBack:
		possible = r.state == o.undone
	case o.did == drop, o.did == retry, o.did == purge:
		possible = true
	case o.did == get:
		after, possible = r, r.state == state{o.code == http.StatusOK, o.saw}
	case o.did == list:
		after, possible = r, r.listed(o)
	}
	switch {
	case !possible:
		return nil
	case o.code == http.StatusNotFound: // it has written nothing
		return []register{r}
	}
	return []register{after}
}

// overtaken returns the possible states after another host's write: readers may see it, or never, as it loses to a write that
// a caller makes later, or is overwritten unseen. Another host's delete beats no write, and the daemon may learn of it late.
func (r register) overtaken(o operation) []register {
	if r.began > o.seen || r.unsure {
		return []register{r}
	}
	return []register{r, {state: state{o.value != "", o.value}, made: o.seen, began: o.call}}
}

// leaves returns the state in which a write that is carried out leaves its entry.
func (o operation) leaves() register {
	switch o.did {
	case put:
		return register{state: state{true, o.value}, made: o.answer, began: o.call}
	case undo, bringBack:
		return register{state: o.redone, unsure: o.code == 0, again: true, made: o.answer, began: o.call}
	case retry: // it has the time of the write that was dropped
		return register{state: o.redone, unsure: o.code == 0, again: true, made: o.answer}
	case drop: // it takes back a write that the caller may no longer be the last to have made
		return register{unsure: true, made: o.answer}
	}
	return register{made: o.answer, began: o.call}
}

// decides returns the possible states after an operation on an entry that may be in any state. A read does not
// decide, nor does a delete that finds nothing: a request for the dropped write, or for one before it, may yet be carried
// out.
func (o operation) decides() []register {
	if o.code == 0 || o.code == http.StatusPreconditionFailed || o.code == http.StatusNotFound || !o.did.writes() {
		return []register{{unsure: true}}
	}
	return []register{o.leaves()}
}

// meets reports whether a state can be as an operation's condition wants it, and whether it can fail to
// be. All values of puts are different, so a value stands for its tag.
func (r register) meets(o operation) (met, unmet bool) {
	same, again := r.state == state{true, o.expected.value}, r.again || o.restored
	switch o.wants {
	case wantsNone:
		return !r.present, r.present
	case wantsSame:
		return same, !same || again
	case wantsOther:
		return !same || again, same
	}
	return true, false
}

// listed reports whether a listing may show an entry in this state as it does. Of a value that is not known
// here, it has the size that the value has upstream.
func (s state) listed(o operation) bool {
	if o.bytes < 0 || !s.present {
		return s.present == (o.bytes >= 0)
	}
	return o.bytes == wire.ListBytes(s.value) || o.bytes == o.veil.size(o.id, s.value)
}

// model is the model of one entry.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{register{}} },
	Step: func(s, input, _ any) []any {
		var out []any
		for _, next := range s.(register).step(input.(operation)) {
			out = append(out, next)
		}
		return out
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
	DescribeState:     func(s any) string { return s.(register).String() },
}).ToModel()

// checkPatience bounds one check: a history that takes longer is too long, not wrong.
const checkPatience = 10 * time.Minute

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
	return porcupine.CheckOperationsVerbose(model, toPorcupine(operations), checkPatience)
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
		id, excerpt(wrong), pictureOf(model, info))
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
