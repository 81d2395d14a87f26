package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/journal"
)

const (
	// fillWorkers is how many entries a filling journals at a time: so many share an fsync.
	fillWorkers = 512
	// fillShows is how many entries a filling journals before it shows again how many there are.
	fillShows = 10_000
)

// filling is a range of entries that a daemon has journaled and upstream has confirmed. A filling writes
// what the daemon would have written for that into its journal, by the same package: it leaves out the
// callers' requests and those upstream, which take most of the time. The keeper then holds the same entries.
type filling struct{ from, to, namespaces int }

// fill writes the entries into the data directory of a daemon that does not run.
func (f filling) fill(ctx context.Context, dir string, show progress) (err error) {
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := j.Run(ctx); err != nil {
		return err
	}
	maintaining, stop := context.WithCancel(ctx)
	maintained := make(chan error, 1)
	go func() { maintained <- j.Maintain(maintaining) }()
	defer func() {
		stop()
		err = errors.Join(err, <-maintained)
	}()
	v := newValues()
	var next atomic.Int64
	next.Store(int64(f.from))
	g, ctx := errgroup.WithContext(ctx)
	for range fillWorkers {
		g.Go(func() error {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= f.to {
					return nil
				}
				if i%fillShows == 0 {
					show.show("%s: %d are there", amount(f.to, f.namespaces), i)
				}
				if err := f.settle(j, v, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// settle journals an entry as upstream has confirmed it.
func (f filling) settle(j *journal.Journal, v values, i int) error {
	w, err := j.Append(journal.NewWrite{
		ID: journal.ID{Namespace: string(appendAgent(nil, i%f.namespaces)), Key: string(appendItem(nil, i))},
		Op: journal.Put, Value: string(v.append(nil, 0, i)), ListBytes: valueSize,
	})
	if err != nil {
		return err
	}
	return j.Settle(w)
}

// path is the request by which the keeper holds these entries.
func (f filling) path() string {
	return fmt.Sprintf("%s?from=%d&to=%d&namespaces=%d", keeperHolds, f.from, f.to, f.namespaces)
}

// value is the i-th entry's value, false if it is none of these.
func (f filling) value(v values, namespace, key string) (string, bool) {
	var agent, item int
	_, noAgent := fmt.Sscanf(namespace, agentPrefix+"%d", &agent)
	_, noItem := fmt.Sscanf(key, itemPrefix+"%d", &item)
	if noAgent != nil || noItem != nil || item < f.from || item >= f.to || item%f.namespaces != agent {
		return "", false
	}
	return string(v.append(nil, 0, item)), true
}

// items visits the entries of a namespace.
func (f filling) items(namespace string, visit func(key string)) {
	var agent int
	if _, err := fmt.Sscanf(namespace, agentPrefix+"%d", &agent); err != nil || f.to == 0 {
		return
	}
	first := f.from + ((agent-f.from)%f.namespaces+f.namespaces)%f.namespaces
	for i := first; i < f.to; i += f.namespaces {
		visit(string(appendItem(nil, i)))
	}
}
