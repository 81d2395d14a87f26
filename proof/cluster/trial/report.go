package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/botwired/botwired/proof/cluster/check"
)

// faultsShown is how many of a rule a run prints.
const faultsShown = 20

// report prints what the run was.
func (t *trial) report(h *check.History) {
	states := make(map[string]int)
	own, others, unknown, versions := 0, 0, 0, 0
	for host, receipts := range h.Receipts {
		for _, r := range receipts {
			if r.State == "superseded" && r.By != 0 {
				states["replaced"]++
			} else {
				states[r.State]++
			}
		}
		for _, l := range h.Lost[host] {
			if l.Own {
				own++
			} else {
				others++
			}
		}
		unknown += t.books[host].unknown
	}
	for _, list := range h.Bucket {
		versions += len(list)
	}
	fmt.Printf("%d daemons, %d servers, %s, %d leaders killed\n", t.hosts, servers, t.now().Round(1e9), t.kills)
	fmt.Printf("%d writes acknowledged: %d confirmed by the bucket, %d replaced by a later write of the same daemon before, %d beaten by another host's\n",
		len(h.Writes), states["settled"], states["replaced"], states["superseded"])
	fmt.Printf("lost are %d own writes, and %d versions that another host had written and that were overwritten unseen\n", own, others)
	fmt.Printf("%d reads answered, and %d with 503: unknown here, and no server to ask\n", len(h.Reads), unknown)
	fmt.Printf("%d entries and %d versions in the bucket\n", len(h.Bucket), versions)
}

// verdict is an error if anything is wrong.
func (t *trial) verdict(faults []check.Fault) error {
	failed := 0
	for host, b := range t.books {
		failed += len(b.failed)
		for _, err := range b.failed[:min(len(b.failed), faultsShown)] {
			fmt.Fprintf(os.Stderr, "host %d: %v\n", host, err)
		}
	}
	rules := make(map[string]int)
	for _, f := range faults {
		if rules[f.Rule]++; rules[f.Rule] <= faultsShown {
			fmt.Fprintln(os.Stderr, f)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		fmt.Fprintf(os.Stderr, "%d times: %s\n", rules[rule], rule)
	}
	if failed > 0 || len(faults) > 0 {
		return fmt.Errorf("%d requests failed, and the check has found %d faults", failed, len(faults))
	}
	fmt.Println("Nothing was lost: the latest write is the final state on all hosts, and each loser can be listed.")
	return nil
}
