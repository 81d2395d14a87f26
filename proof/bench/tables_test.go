package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/proof/load"
	"github.com/botwired/botwired/proof/loopback"
	"github.com/botwired/botwired/proof/machine"
)

func TestTables(t *testing.T) {
	r := &report{Machine: machine.Machine{Cores: 2}, Options: settings{Open: []int{25, 50}}, Cells: []*cell{
		{Workload: getHit, Connections: 64, Contender: botwired, Rounds: []figures{{PerSecond: 100_000}}, Median: figures{100_000, 600, 1500, 2500, 8, 5}},
		{Workload: getHit, Connections: 64, Contender: redis, Rounds: []figures{{PerSecond: 50_000}}, Median: figures{50_000, 500, 1400, 2600, 0, 0}},
		{Workload: getHit, Connections: 64, Contender: echo, Rounds: []figures{{PerSecond: 150_000}}, Median: figures{150_000, 400, 900, 1000, 3, 5}},
		{Workload: putDistinct, Connections: 8, Contender: botwired, Rounds: []figures{{PerSecond: 100}}, Median: figures{100, 600, 1500, 2500, 8, 5}},
		{Workload: putDistinct, Connections: 8, Contender: echo, Rounds: []figures{{PerSecond: 105}}, Median: figures{105, 600, 1500, 2500, 8, 5}},
	}, Open: []*cell{
		{Workload: getHit, Connections: 64, Contender: botwired, Rate: 12_500, Percent: 25, Median: figures{12_490, 40, 90, 2_000_000, 8, 5}},
	}}
	r.compare()
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| GET hit | c | requests/s | × | p50 | p99 | p99.9 | CPU | generator |",
		"| botwired | 64 | 100,000 | – | 600 µs | 1.50 ms | 2.50 ms | 8.00 µs | 5.00 µs, 25 % |",
		"| Redis | 64 | 50,000 | 2.00 | 500 µs | 1.40 ms | 2.60 ms | – | – |",
		"| PUT durable, distinct keys | c | requests/s | × | p50 | p99 | p99.9 | CPU | generator |",
		"| GET hit | due/s | p50 | p99 | p99.9 | CPU | generator |",
		"| botwired | 12,500 | 40.0 µs | 90.0 µs | 2.00 s | 8.00 µs | 5.00 µs, 3 % |",
		"| GET hit | 64 | 1.50× that of botwired |",
		"| PUT durable, distinct keys | 8 | 1.05× that of botwired: **the generator and TCP are the limit** |",
	} {
		if strings.Count(b.String(), line+"\n") != 1 {
			t.Errorf("no line %s in\n%s", line, b.String())
		}
	}
}

// The rates of the open loop go by the slowest of those that it compares, not by the echo or the service.
func TestRatesGoByTheSlowest(t *testing.T) {
	at := func(workload string, connections int, c contender, perSecond float64) *cell {
		return &cell{Workload: workload, Connections: connections, Contender: c, Median: figures{PerSecond: perSecond}}
	}
	closed := []*cell{
		at(getHit, 64, botwired, 300), at(getHit, 64, nginx, 200), at(getHit, 64, upstream, 10), at(getHit, 64, echo, 20),
		at(getHit, 64, page, 30), at(getHit, 8, redis, 40), at(putDistinct, 64, redis, 50),
	}
	for workload, want := range map[string]float64{getHit: 200, putDistinct: 50, "other": 0} {
		if got := slowestOf(closed, workload); got != want {
			t.Errorf("%s: %v, want %v", workload, got, want)
		}
	}
}

func TestCellsAreMeasuredInGroups(t *testing.T) {
	cells := []*cell{
		{Workload: "w", Connections: 1, Contender: botwired}, {Workload: "w", Connections: 1, Contender: redis},
		{Workload: "w", Connections: 8}, {Workload: "v", Connections: 8}, {Workload: "v", Connections: 8, Percent: 25}, {Workload: "v", Connections: 8, Percent: 25},
	}
	var lengths []int
	for rest := cells; len(rest) > 0; rest = rest[groupOf(rest):] {
		lengths = append(lengths, groupOf(rest))
	}
	if diff := cmp.Diff([]int{2, 1, 1, 2}, lengths); diff != "" {
		t.Error(diff)
	}
}

func TestCostIsThatBetweenTheReadings(t *testing.T) {
	first := reading{server: time.Second, generator: 3 * time.Second, answered: 100}
	last := reading{server: time.Second + 500*time.Microsecond, generator: 3*time.Second + 200*time.Microsecond, answered: 150}
	broken := last
	broken.err = io.EOF
	for _, test := range []struct {
		readings          []reading
		server, generator float64
	}{
		{[]reading{first, last}, 10, 4},
		{[]reading{first, broken}, 0, 0},
		{[]reading{first}, 0, 0},
		{[]reading{first, first}, 0, 0},
	} {
		m := &meter{readings: test.readings}
		if server, generator := m.perRequest(); server != test.server || generator != test.generator {
			t.Errorf("%v, %v, want %v, %v", server, generator, test.server, test.generator)
		}
	}
}

// nginx's workers are beneath the process that the lab has started.
func TestTimeOfAServerIncludesItsChildren(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // no such figures
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read x; :); :")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	alone, err := threadsTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	all, err := treeTime(cmd.Process.Pid)
	if err != nil || all <= alone {
		t.Errorf("%v with its child, %v alone (%v)", all, alone, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if _, err := treeTime(os.Getpid()); err != nil {
		t.Error(err)
	}
}

func TestEchoAnswersEachRequestWithAsManyBytes(t *testing.T) {
	const size = 300
	answer, err := answerOf(size)
	if err != nil || len(answer) != size {
		t.Fatalf("%d bytes, %v", len(answer), err)
	}
	if length, err := load.HTTPAnswer(answer); length != size || err != nil {
		t.Errorf("an answer of %d bytes is one of %d (%v)", size, length, err)
	}
	if _, err := answerOf(10); err == nil {
		t.Error("an answer of 10 bytes is taken")
	}
	address, err := loopback.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() { served <- serveEcho(ctx, address, answer) }()
	for httpProbe("/")(t.Context(), address) != nil {
		runtime.Gosched() // until it listens
	}
	result, err := load.Run(t.Context(), load.Options{
		Address: address, Connections: 3, Requests: 5, Request: always(get(address, "/")), Answer: load.HTTPAnswer,
	})
	if err != nil || result.Requests != 15 {
		t.Errorf("%v, %v", result, err)
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestTooFewOpenFilesAreRefused(t *testing.T) {
	for _, test := range []struct {
		limit       uint64
		connections int
		refused     bool
	}{{1024, 64, false}, {1024, 4000, true}, {20000, 4000, false}, {0, 4000, false}} {
		if err := enoughFiles(test.limit, test.connections); (err != nil) != test.refused {
			t.Errorf("%d connections with %d files: %v", test.connections, test.limit, err)
		}
	}
}
