//go:build sweep

package journal_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

var (
	sweepAll   = flag.Bool("sweep.all", false, "sweep every operation, reads too; -short takes a sample of all")
	sweepCases = flag.String("sweep.cases", "", "run these cases here: a kind, a colon, numbers between commas")
)

const (
	sweepPerProcess = 60 // stores abandoned by one process; each keeps its memory
	sweepSample     = 60 // number of operations of a sampled kind
	sweepSeed       = 11
	// A case that takes longer hangs. This is far more than a slow machine needs.
	sweepPatience = 2 * time.Minute
)

// If any operation of a disk fails in any way, nothing acknowledged is lost or changed, nothing hangs,
// and either work continues or the process ends (contract 1, 2 and 3). Separate processes run the
// cases, because a process that the journal ends leaves a store that cannot be closed.
func TestSweep(t *testing.T) {
	if *sweepCases != "" {
		runCases(*sweepCases)
		return
	}
	var mu sync.Mutex
	seats := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, a := range ailments {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			total := countOperations(t, a)
			numbers := numbersOf(a, total)
			results := make(map[string]int)
			var wg sync.WaitGroup
			for batch := range slices.Chunk(numbers, sweepPerProcess) {
				wg.Go(func() {
					seats <- struct{}{}
					defer func() { <-seats }()
					for _, r := range sweepBatch(t, a.name, batch) {
						mu.Lock()
						results[r]++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			t.Logf("%d cases of %d operations", len(numbers), total)
			for _, r := range slices.Sorted(maps.Keys(results)) {
				t.Logf("%5d %s", results[r], r)
			}
		})
	}
}

// countOperations runs the scenario on a healthy disk.
func countOperations(t *testing.T, a ailment) int {
	t.Helper()
	d := newSickDisk(a, 0)
	v := &voyage{ledger: newLedger(), fs: d.fs, leave: d.leave, restart: d.restart}
	done := make(chan struct{})
	go func() { defer close(done); v.sail() }()
	<-done
	if v.stop != nil || len(v.violations) > 0 {
		t.Fatalf("on a healthy disk: %v, %v", v.stop, v.violations)
	}
	no(t, v.opensWith(d.mem.MemFS))
	return d.now
}

func numbersOf(a ailment, total int) []int {
	numbers := make([]int, total)
	for i := range numbers {
		numbers[i] = i + 1
	}
	if (a.sample || testing.Short()) && !*sweepAll && total > sweepSample {
		rng := rand.New(rand.NewPCG(sweepSeed, 0))
		rng.Shuffle(total, func(i, k int) { numbers[i], numbers[k] = numbers[k], numbers[i] })
		numbers = numbers[:sweepSample]
		slices.Sort(numbers)
	}
	return numbers
}

// sweepBatch runs cases in a separate process. If Pebble crashes that process in a case, sweepBatch
// runs the following cases in another one: a crash also counts as an end. TestPowerCutSweep checks the
// remains of a power cut or a kill at such a moment.
func sweepBatch(t *testing.T, name string, numbers []int) (results []string) {
	for len(numbers) > 0 {
		var list []string
		for _, n := range numbers {
			list = append(list, strconv.Itoa(n))
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestSweep$", "-sweep.cases="+name+":"+strings.Join(list, ","))
		cmd.Env = append(os.Environ(), journal.AloneEnv+"=1")
		out, err := cmd.CombinedOutput()
		done := 0
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			if r, ok := strings.CutPrefix(lines.Text(), "sweep: "); ok {
				results = append(results, r)
				done++
			}
			if v, ok := strings.CutPrefix(lines.Text(), "sweep violation: "); ok {
				t.Error(v)
			}
		}
		if err == nil {
			return results
		}
		what, ok := crashedBy(out)
		if !ok || done >= len(numbers) {
			t.Errorf("%s %d: %v\n%s", name, numbers[min(done, len(numbers)-1)], err, out)
			return results
		}
		results = append(results, "Pebble ended the process: "+what)
		numbers = numbers[done+1:]
	}
	return results
}

// crashedBy returns Pebble's panic over a failed operation, if that ended the process.
func crashedBy(out []byte) (what string, ok bool) {
	_, text, ok := strings.Cut(string(out), "\npanic: ")
	if !ok {
		text, ok = strings.CutPrefix(string(out), "panic: ")
	}
	what, _, _ = strings.Cut(text, "\n")
	what, _, _ = strings.Cut(what, " 0x")
	what = strings.TrimSuffix(what, " [recovered, repanicked]")
	_, stack, _ := strings.Cut(text, "\ngoroutine ")
	stack, _, _ = strings.Cut(stack, "\n\n")
	const pebble = "github.com/cockroachdb/pebble/v2"
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, pebble) {
			what += " in " + line[len(pebble)+1:strings.LastIndexByte(line, '(')]
			break
		}
	}
	// On a caller's goroutine, net/http would swallow the panic, so there the journal must end the
	// process.
	return what, ok && strings.Contains(stack, "\ncreated by "+pebble)
}

// runCases runs cases one after the other and prints their outcomes.
func runCases(cases string) {
	name, list, _ := strings.Cut(cases, ":")
	i := slices.IndexFunc(ailments, func(a ailment) bool { return a.name == name })
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || i < 0 {
			fmt.Println("no such case:", cases)
			os.Exit(2)
		}
		timer := time.AfterFunc(sweepPatience, func() {
			stacks := make([]byte, 1<<20)
			fmt.Printf("%s %d hangs\n%s\n", name, n, stacks[:runtime.Stack(stacks, true)])
			os.Exit(3)
		})
		outcome, violations := runCase(ailments[i], n)
		timer.Stop()
		for _, v := range violations {
			fmt.Printf("sweep violation: %s %d: %s\n", name, n, strings.ReplaceAll(v, "\n", " "))
		}
		fmt.Println("sweep:", outcome)
	}
}

// runCase runs the scenario on a sick disk until it ends or the process would end, and checks what a
// power cut and a kill then leave.
func runCase(a ailment, n int) (outcome string, violations []string) {
	d := newSickDisk(a, n)
	v := &voyage{ledger: newLedger(), fs: d.fs, leave: d.leave, restart: d.restart}
	done := make(chan struct{})
	go func() { defer close(done); v.sail() }()
	select {
	case <-done:
	case <-v.said:
	}
	outcome = v.outcome()
	known, _ := v.now()
	cut := d.mem.CrashClone(vfs.CrashCloneCfg{})
	killed := d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	err := errors.Join(known.opensWith(cut), known.opensWith(killed))
	v.mu.Lock()
	defer v.mu.Unlock()
	what := d.what()
	if err != nil {
		v.violations = append(v.violations, err.Error())
	}
	if len(v.fatal) > 1 {
		v.violations = append(v.violations, fmt.Sprintf("Fatal was called with %q", v.fatal))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if outcome == wentOn && d.again {
		v.violations = append(v.violations, "a failed sync was tried again")
	}
	if outcome == wentOn && d.serves && errors.Is(d.fails(n, n), syscall.EIO) {
		v.violations = append(v.violations, "the disk failed and was trusted again")
	}
	if what == "" {
		return "not reached", v.violations
	}
	for i := range v.violations {
		v.violations[i] = what + ", " + outcome + ": " + v.violations[i]
	}
	return outcome + " (" + what + ")", v.violations
}

const wentOn = "went on"

func (v *voyage) outcome() string {
	if v.hasEnded() {
		return "Fatal"
	}
	if v.stop != nil {
		what, _, _ := strings.Cut(v.stop.Error(), ":")
		return what + " refused"
	}
	return wentOn
}
