package main

import "fmt"

// The limits of growth. Neither how long a caller waits, nor the memory of settled entries, nor a restart
// may grow with the work. The entry bounds the growth of all else.
const (
	// latencyGrowth is how many times longer a caller may wait for a daemon with the most entries than
	// for one with the fewest in the same state.
	latencyGrowth = 1.3
	// firstGrowth is how many times longer the first GET of an entry may take with the most entries than
	// with the fewest that do not fit into memory: the journal has more levels.
	firstGrowth = 1.5
	// settledResident is the most resident memory of a daemon with everything settled, in bytes, beside
	// namespaceResident for each namespace: caches of a fixed size, and the program.
	settledResident   = 200 << 20
	namespaceResident = 1 << 10
	// pendingResident is what a pending write may take beside that, in bytes. It is a little more than
	// the journal's budget counts: the collector of garbage has its share.
	pendingResident = 800
	// settledReady is how many times longer a daemon with the most settled entries may take for its start.
	settledReady = 1.5
	// pendingReady is the longest start with pendingStart writes, in seconds.
	pendingReady = 3
	pendingStart = 1_000_000
	// entryOnDisk is the most that an entry may add to the data directory, in bytes: twice its value, and
	// its names and receipts.
	entryOnDisk = 800
	// drainKept is the least share of its rate at which the daemon with the most entries drains.
	drainKept = 0.5
)

// growthGoals say of each figure whether it may grow, and hold the points against that.
func growthGoals(r *growthReport) (all []goal) {
	at := func(what string, limit float64, unit string) goal {
		return goal{What: what, Limit: limit, AtMost: true, Unit: unit}
	}
	for _, state := range []string{statePending, stateSettled} {
		points := r.in(state)
		all = append(all,
			at("GET p50, "+state+": does not grow", latencyGrowth, "×").measured(growthOf(points, func(p *point) float64 { return p.GetRatio })),
			at("PUT p50, "+state+": does not grow", latencyGrowth, "×").measured(growthOf(points, func(p *point) float64 { return p.PutRatio })))
	}
	settled, pending := r.in(stateSettled), r.in(statePending)
	all = append(all, at("first GET, settled: next to nothing", firstGrowth, "×").
		measured(growthOf(atLeast(settled, leastTelling), func(p *point) float64 { return p.First.P50 })))
	million := fmt.Sprintf("ready after a kill, pending: at %s", thousands(pendingStart))
	all = append(all,
		at("ready after a kill, settled: does not grow", settledReady, "×").measured(growthOf(settled, func(p *point) float64 { return p.Ready })),
		at(million, pendingReady, "s").measured(worst(atLeast(pending, pendingStart), func(p *point) float64 { return p.Ready })),
		at("resident, settled: a fixed amount, beside "+thousands(namespaceResident)+" B a namespace", settledResident>>20, "MiB").
			measured(worst(settled, func(p *point) float64 { return float64(p.RSS-int64(p.Namespaces)*namespaceResident) / (1 << 20) })),
		at("resident, pending: grows by the write, beside that", pendingResident, "B").
			measured(worst(atLeast(pending, leastTelling), func(p *point) float64 {
				return float64(p.RSS-settledResident-int64(p.Namespaces)*namespaceResident) / float64(p.Entries)
			})),
		at("on disk: grows by the entry", entryOnDisk, "B").
			measured(worst(atLeast(settled, leastTelling), func(p *point) float64 { return float64(p.Disk-settled[0].Disk) / float64(p.Entries) })),
		goal{What: "drain: as fast, whatever the entries", Limit: drainKept, Unit: "×"}.measured(drainKeptOf(settled)))
	return all
}

// leastTelling is the least number of entries whose share of a figure can be told from the rest.
const leastTelling = 100_000

// in is the points of a state, in the order in which they were measured.
func (r *growthReport) in(state string) (points []*point) {
	for _, p := range r.Points {
		if p.State == state {
			points = append(points, p)
		}
	}
	return points
}

// atLeast is the points of a size at least.
func atLeast(points []*point, entries int) (large []*point) {
	for _, p := range points {
		if p.Entries >= entries {
			large = append(large, p)
		}
	}
	return large
}

// growthOf is the greatest of a figure over that of the first point; known is false for fewer than two.
func growthOf(points []*point, figure func(*point) float64) (most float64, known bool) {
	if len(points) < 2 || figure(points[0]) == 0 {
		return 0, false
	}
	for _, p := range points[1:] {
		most = max(most, figure(p)/figure(points[0]))
	}
	return most, true
}

// worst is the greatest of a figure over the points.
func worst(points []*point, figure func(*point) float64) (most float64, known bool) {
	for _, p := range points {
		if f := figure(p); !known || f > most {
			most, known = f, true
		}
	}
	return most, known
}

// drainKeptOf is the least rate of a drain over that of the first point whose drain takes long enough to
// tell.
func drainKeptOf(points []*point) (least float64, known bool) {
	first := 0.0
	for _, p := range points {
		switch rate := p.Drain.PerSecond(); {
		case p.Drain.Writes < leastTelling:
		case first == 0:
			first = rate
		case !known || rate/first < least:
			least, known = rate/first, true
		}
	}
	return least, known
}
