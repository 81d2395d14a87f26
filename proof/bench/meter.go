package main

import (
	"errors"
	"os"
	"time"
)

// meter reads what a server's processes and this one cost while requests count.
type meter struct {
	server   *server
	readings []reading
}

// reading is the CPU time that was used until a moment, and the answers that came until then.
type reading struct {
	server, generator time.Duration
	answered          int
	err               error // of a system that has no such figures
}

// sample takes a reading. [load.Options] calls it at the beginning and at the end.
func (m *meter) sample(answered int) {
	r := reading{answered: answered}
	if r.server, r.err = m.server.cpuTime(); r.err == nil {
		r.generator, r.err = threadsTime(os.Getpid())
	}
	m.readings = append(m.readings, r)
}

// perRequest returns microseconds of CPU time between the readings, or zeros if they are unknown.
func (m *meter) perRequest() (server, generator float64) {
	used, answered, err := m.total()
	if err != nil || answered == 0 {
		return 0, 0
	}
	requests := float64(answered)
	return microseconds(used) / requests, microseconds(m.readings[1].generator-m.readings[0].generator) / requests
}

// total returns the server's CPU time between the readings, and the number of answers.
func (m *meter) total() (server time.Duration, answered int, err error) {
	if len(m.readings) != 2 {
		return 0, 0, errors.New("the load has ended before its time")
	}
	first, last := m.readings[0], m.readings[1]
	return last.server - first.server, last.answered - first.answered, errors.Join(first.err, last.err)
}
