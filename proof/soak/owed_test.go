package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/numbered"
)

// What a daemon holds after damage is judged as contract 4 says: each of these rows is a loss, or permitted.
func TestOwed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	named := &recovery{Missing: missing{Known: true, Pending: 1, Records: []string{"pending write 2 to ns/k"}}}
	another := &recovery{Missing: missing{Known: true, Pending: 1, Records: []string{"pending write 2 to ns/k2"}}}
	unclear := &recovery{Missing: missing{Known: true, Changes: 1}}
	for name, row := range map[string]struct {
		upstream, pending int // the writes that they hold; 0: none
		ago               time.Duration
		said              *recovery
		wrong             bool
	}{
		"upstream has it":                      {upstream: 2},
		"it is pending":                        {upstream: 1, pending: 2},
		"it is lost":                           {upstream: 1, wrong: true},
		"an older one is pending":              {upstream: 0, pending: 1, wrong: true},
		"upstream has it, and an older one":    {upstream: 2, pending: 1, wrong: true},
		"the older one may be back":            {upstream: 2, pending: 1, said: unclear},
		"a recovery names it":                  {upstream: 1, said: named},
		"a recovery names it, and is complete": {upstream: 2, pending: 1, said: named, wrong: true},
		"a recovery names another":             {upstream: 1, said: another, wrong: true},
		"a recovery does not know":             {upstream: 1, said: unclear},
		"it is as old as it may be lost":       {upstream: 1, ago: 2 * time.Second},
		"it is older":                          {upstream: 1, ago: 500 * time.Millisecond, wrong: true},
		"the one before is older":              {upstream: 0, ago: 2 * time.Second, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &soak{load: &load{model: &model{}}, doubted: make(map[*numbered.Entry]int), evidence: t.TempDir()}
				e := numbered.NewEntry("ns", "k")
				e.Acknowledged(e.Begin(false))
				time.Sleep(3 * time.Second)
				e.Acknowledged(e.Begin(false))
				time.Sleep(time.Second)
				var may loss
				if row.ago != 0 {
					may.since = time.Now().Add(-row.ago)
				}
				if row.said != nil {
					may.said = append(may.said, row.said)
				}
				holds := func(n int) state {
					if n == 0 {
						return state{}
					}
					return state{numbered.Value("k", n, 40), true}
				}
				s.judge(e, held{row.pending != 0, holds(row.pending), holds(row.upstream)}, &may)
				if got := s.load.wrongCount() != 0; got != row.wrong {
					t.Errorf("wrong: %t, %q", got, s.load.wrongs)
				}
			})
		})
	}
}

// Numbers that were appended may be missing from a time on, and no other, and none may be there twice.
func TestAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &appended{namespace: "ns", key: "w0-log-1"}
		for range 3 {
			log.note(times{least: 1, most: 1})
			time.Sleep(time.Second)
		}
		since := time.Now().Add(-1500 * time.Millisecond)
		for value, allowed := range map[string]bool{"0,1,2": true, "0,1": true, "0,1,2,3": true, "0": false, "0,1,1": false, "0,2": false, "0,1,2,4": false} {
			if err := log.judge(value, since, true); (err == nil) != allowed {
				t.Errorf("%s: %v", value, err)
			}
		}
		if log.judge("0,1", time.Time{}, false) == nil || log.judge("0,1,2,3", time.Time{}, false) == nil {
			t.Error("a number is missing, or nobody has appended it")
		}
		log.forget(time.Time{}, "0,2")
		if log.judge("0,2", time.Time{}, false) != nil || log.judge("2", time.Time{}, false) == nil {
			t.Error("it has not forgotten the number that upstream lacks, or more")
		}
	})
}
