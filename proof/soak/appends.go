package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/numbered"
)

// appended is an entry to which one writer appends numbers. Each must be there once, in order.
type appended struct {
	namespace string

	mu    sync.Mutex
	key   string
	times []times // by number
}

// times says how often a number may be in the value, since an answer at a time.
type times struct {
	least, most int
	at          time.Time
}

// next returns the number to append next, and the key.
func (log *appended) next() (n int, key string) {
	log.mu.Lock()
	defer log.mu.Unlock()
	if len(log.times) == restarted {
		prefix, part, _ := strings.Cut(log.key, "-log-")
		before, _ := strconv.Atoi(part)
		log.key, log.times = fmt.Sprintf("%s-log-%d", prefix, before+1), nil
	}
	return len(log.times), log.key
}

func (log *appended) note(is times) {
	log.mu.Lock()
	defer log.mu.Unlock()
	is.at = time.Now()
	log.times = append(log.times, is)
}

// entry returns what is appended to now, for its path upstream.
func (log *appended) entry() *numbered.Entry {
	log.mu.Lock()
	defer log.mu.Unlock()
	return numbered.NewEntry(log.namespace, log.key)
}

func newLogs() (logs []*appended) {
	for w := range writers {
		logs = append(logs, &appended{namespace: fmt.Sprintf("soak-%d", w%namespaces), key: fmt.Sprintf("w%d-log-1", w)})
	}
	return logs
}

// restarted is the length, in numbers, at which a writer goes on under another key.
const restarted = 15_000

// append appends a number, and reports whether there was an answer. It repeats the request until there is
// one. Then the number must be there once, even if an earlier attempt was carried out.
func (l *load) append(ctx context.Context, log *appended) bool {
	n, key := log.next()
	path := "/_botwired/append?" + url.Values{"namespace": {log.namespace}, "key": {key}, "separator": {","}}.Encode()
	epoch, shortage := l.epoch(), l.shortage.Load()
	a, err := l.untilAnswered(ctx, http.MethodPost, path, fmt.Appendf(nil, `{"value":"%d"}`, n), fmt.Sprint("append-", n))
	is := times{least: 0, most: 1}
	switch {
	case err != nil || isUnknown(a.Status):
	case a.Status == http.StatusOK:
		is.least = 1
	case a.Status == http.StatusInsufficientStorage:
		l.full.Add(1)
	default:
		l.wrong("POST %s: %d %.200s", path, a.Status, a.Body)
	}
	if !l.plenty(shortage) {
		is.most = 2 // a nearly full disk may have taken the name of the first attempt, and damage too
	}
	l.within(epoch, func() { epoch = -1 })
	if epoch != -1 {
		is.least = 0
	}
	log.note(is)
	return err == nil
}

// judge compares the value with what the writer was told. Numbers appended after since may be missing, unless it is
// zero. One more may be under way.
func (log *appended) judge(value string, since time.Time, underway bool) error {
	log.mu.Lock()
	defer log.mu.Unlock()
	seen, err := log.count(value, underway)
	if err != nil {
		return err
	}
	for n, is := range log.times {
		if seen[n] < is.least && (since.IsZero() || is.at.Before(since)) || seen[n] > is.most {
			return fmt.Errorf("has %d %d times, want %d to %d", n, seen[n], is.least, is.most)
		}
	}
	return nil
}

// count counts the numbers in a value. The caller holds mu.
func (log *appended) count(value string, underway bool) (seen []int, _ error) {
	seen = make([]int, len(log.times)+1)
	last, end := 0, len(log.times)
	if underway {
		end++
	}
	for _, text := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil || n < last || n >= end {
			return nil, fmt.Errorf("has %q after %d", text, last)
		}
		seen[n]++
		last = n
	}
	return seen, nil
}

// forget permits that numbers are missing: those appended after since, if it is not zero, and those that a value lacks.
func (log *appended) forget(since time.Time, values ...string) {
	log.mu.Lock()
	defer log.mu.Unlock()
	for n := range log.times {
		if !since.IsZero() && !log.times[n].at.Before(since) {
			log.times[n].least = 0
		}
	}
	for _, value := range values {
		seen, err := log.count(value, true)
		for n := range log.times {
			if err != nil || seen[n] == 0 {
				log.times[n].least = 0
			}
		}
	}
}

// compareLogs reads what was appended, once nobody appends.
func (l *load) compareLogs(ctx context.Context) error {
	for _, log := range l.logs {
		e := log.entry()
		status, answer, err := l.caller.do(ctx, http.MethodGet, e.Path(), nil)
		if err != nil {
			return err
		}
		var doc struct{ Value string }
		if status == http.StatusOK {
			err = json.Unmarshal(answer, &doc)
		}
		if err == nil {
			err = log.judge(doc.Value, time.Time{}, false)
		}
		if err != nil || status != http.StatusOK && status != http.StatusNotFound {
			l.wrong("%s/%s: %d %v", e.Namespace, e.Key, status, err)
		}
	}
	return nil
}
