package schedule

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/botwired/botwired/journal"
)

// announced returns a schedule with n announced writes spread over some namespaces, which linger.
func announced(n, namespaces int) *Schedule {
	s := New(Options{Concurrency: 16, Wake: func() {}})
	for i := range n {
		s.Written(change(i, namespaces), Instant(time.Hour), 1)
	}
	return s
}

func change(i, namespaces int) journal.Change {
	id := journal.ID{Namespace: fmt.Sprint("ns", i%namespaces), Key: fmt.Sprint("key", i)}
	return journal.Change{ID: id, Seq: uint64(i + 1), Written: true, Op: journal.Put}
}

// A million pending entries fit in little memory.
func TestATaskIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(task{}); size > 80 {
		t.Errorf("a task takes %d bytes", size)
	}
	var before, after runtime.MemStats
	s := announced(0, 1)
	changes := make([]journal.Change, 200_000)
	for i := range changes {
		changes[i] = change(i, 10)
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, c := range changes {
		s.Written(c, Instant(time.Hour), 1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / float64(len(changes))
	t.Logf("%.1f bytes a task, without its key", each)
	if each > 96 {
		t.Errorf("a pending entry takes %.1f bytes in the schedule", each)
	}
	runtime.KeepAlive(changes)
	runtime.KeepAlive(s)
}

// A flush changes only a task or two: it holds the lock that writers wait for.
func TestAFlushTouchesHardlyAnyTask(t *testing.T) {
	s := announced(100_000, 1)
	q := s.queues.Get("ns0")
	snapshot := func() map[*task]task {
		tasks := make(map[*task]task)
		for t := range inLine(&q.puts.urgent) {
			tasks[t] = *t
		}
		for t := range inLine(&q.puts.lingering) {
			tasks[t] = *t
		}
		return tasks
	}
	for round := range 3 {
		before := snapshot()
		s.Expedite(q)
		if q.Pending() != len(before) || q.puts.lingering.front != nil {
			t.Fatalf("the flush waits for %d of %d entries; lingering: %v", q.Pending(), len(before), q.puts.lingering.front)
		}
		touched := 0
		for t, was := range before {
			if *t != was {
				touched++
			}
		}
		if touched > 2 {
			t.Errorf("round %d: a flush touched %d tasks of %d", round, touched, len(before))
		}
		for i := range 100 {
			s.Written(change(200_000+100*round+i, 1), Instant(time.Hour), 1)
		}
	}
}

// inLine yields the tasks of a line, front first.
func inLine(l *line) func(func(*task) bool) {
	return func(yield func(*task) bool) {
		for t := l.front; t != nil && yield(t); t = t.next {
		}
	}
}

// A flush of all namespaces visits a bounded number of them under one hold of the lock.
func TestAFlushOfManyNamespacesGoesInChunks(t *testing.T) {
	const namespaces, atOnce = 10_000, 128
	s := announced(namespaces, namespaces)
	chunks := 0
	for cursor, done := 0, false; !done; chunks++ {
		before := s.lingeringQueues()
		cursor, done = s.Walk(cursor, atOnce, s.Expedite)
		if n := before - s.lingeringQueues(); n > 2*atOnce {
			t.Errorf("a chunk made %d namespaces urgent", n)
		}
	}
	if n := s.lingeringQueues(); n > 0 || chunks < namespaces/atOnce/2 {
		t.Errorf("%d of %d namespaces still linger after %d chunks", n, namespaces, chunks)
	}
}

// lingeringQueues counts the namespaces with a lingering task.
func (s *Schedule) lingeringQueues() (n int) {
	s.queues.Walk(0, 1<<30, func(q *Queue) {
		if q.puts.lingering.front != nil {
			n++
		}
	})
	return n
}
