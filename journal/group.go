package journal

import (
	"errors"
	"fmt"
	"sync"
)

const (
	// groupWrites and groupBytes bound what is journaled in one batch: writes, and bytes
	// of their values. Pebble takes batches of half a memtable and more another way.
	groupWrites = 1024
	groupBytes  = 2 << 20
)

// appending is a write on its way into the journal.
type appending struct {
	NewWrite
	also addition

	// turn tells whoever waits in line that it has to lead, or else that err and, if
	// that is nil, version are set.
	turn    chan bool
	err     error
	version *version
	node    *node
}

// line is where writers wait to be journaled together: all that come during one sync
// share the next. Whoever finds nobody at work leads: it journals those in line, itself
// among them, and then passes the lead on. So one writer alone waits for no other
// goroutine, and many take turns at the locks as one.
type line struct {
	mu      sync.Mutex
	waiting []*appending // the leader is the first until it takes its group
	led     bool         // whether somebody leads
}

// join puts a write in line and returns when it has to lead, or false when it has been
// journaled or refused.
func (l *line) join(a *appending) (leads bool) {
	l.mu.Lock()
	l.waiting = append(l.waiting, a)
	if !l.led {
		l.led = true
		l.mu.Unlock()
		return true
	}
	a.turn = make(chan bool, 1)
	l.mu.Unlock()
	return <-a.turn
}

// take takes the group of whoever leads out of the line: as many as make one batch. A
// write with an addition is a group alone: if the addition fails, the batch is dropped.
func (l *line) take() []*appending {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 1, len(l.waiting[0].Value)
	if l.waiting[0].also.to == nil {
		for n < len(l.waiting) && n < groupWrites && l.waiting[n].also.to == nil {
			if bytes += len(l.waiting[n].Value); bytes > groupBytes {
				break
			}
			n++
		}
	}
	group := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return group
}

// pass makes the next in line lead, and ends the wait of a group.
func (l *line) pass(group []*appending) {
	l.mu.Lock()
	var next *appending
	if l.led = len(l.waiting) > 0; l.led {
		next = l.waiting[0]
	}
	l.mu.Unlock()
	if next != nil {
		next.turn <- true
	}
	for _, a := range group[1:] {
		a.turn <- false
	}
}

// lead journals a group, and returns when it is durable and visible, or refused.
func (j *Journal) lead() {
	group := j.line.take()
	defer j.line.pass(group)
	if err := j.store(group); err != nil {
		refuse(group, err)
		return
	}
	j.publish(group)
}

// store makes a group durable.
func (j *Journal) store(group []*appending) (err error) {
	defer func() {
		if p := recover(); p != nil {
			// A batch that is half made is not to be made good for.
			j.fail(fmt.Errorf("journaling: panic: %T", p))
			err = ErrFailed
		}
	}()
	batch, err := j.begin(group)
	if batch != nil && err == nil {
		err = j.wait(batch)
	}
	return err
}

// refuse gives an error to those of a group that have none, and to those whose own
// would be an answer: what they lost to may not be durable.
func refuse(group []*appending, err error) {
	for _, a := range group {
		if a.err == nil || errors.Is(a.err, ErrChanged) {
			a.err = err
		}
	}
}
