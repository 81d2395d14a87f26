package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// appended is an entry to which one writer appends numbers. Each must be there once, in order.
type appended struct {
	namespace, key string
	times          []times // by number
}

// times says how often a number may be in the value.
type times struct{ least, most int }

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
	n := len(log.times)
	if n == restarted {
		prefix, part, _ := strings.Cut(log.key, "-log-")
		before, _ := strconv.Atoi(part)
		log.key, log.times, n = fmt.Sprintf("%s-log-%d", prefix, before+1), nil, 0
	}
	path := "/_botwired/append?" + url.Values{"namespace": {log.namespace}, "key": {log.key}, "separator": {","}}.Encode()
	shortage := l.shortage.Load()
	a, err := l.untilAnswered(ctx, http.MethodPost, path, fmt.Appendf(nil, `{"value":"%d"}`, n), fmt.Sprint("append-", n))
	is := times{0, 1}
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
		is.most = 2 // a nearly full disk may have taken the name of the first attempt
	}
	log.times = append(log.times, is)
	return err == nil
}

// judge compares the value with what the writer was told.
func (log *appended) judge(value string) error {
	seen := make([]int, len(log.times))
	last := 0
	for _, text := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil || n < last || n >= len(seen) {
			return fmt.Errorf("has %q after %d", text, last)
		}
		seen[n]++
		last = n
	}
	for n, is := range log.times {
		if seen[n] < is.least || seen[n] > is.most {
			return fmt.Errorf("has %d %d times, want %d to %d", n, seen[n], is.least, is.most)
		}
	}
	return nil
}

// compareLogs reads what was appended, once nobody appends.
func (l *load) compareLogs(ctx context.Context) error {
	for _, log := range l.logs {
		status, answer, err := l.caller.do(ctx, http.MethodGet, "/memory/"+log.namespace+"/"+log.key, nil)
		if err != nil {
			return err
		}
		var doc struct{ Value string }
		if status == http.StatusOK {
			err = json.Unmarshal(answer, &doc)
		}
		if err == nil {
			err = log.judge(doc.Value)
		}
		if err != nil || status != http.StatusOK && status != http.StatusNotFound {
			l.wrong("%s/%s: %d %v", log.namespace, log.key, status, err)
		}
	}
	return nil
}
