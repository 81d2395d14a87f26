package natskv

import (
	"math"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// tombstoneSize is the size in a tombstone's row.
const tombstoneSize = -1

// row is an entry's last version without its value. A bucket may hold millions, so a row has at most 64
// bytes.
type row struct {
	hashtable.Node[row]
	revision, seq    uint64
	created, written int64  // microseconds since 1970
	size             int32  // the size that a listing gives; tombstoneSize for a tombstone
	host             uint32 // the number of the writer's host
}

func (r *row) deleted() bool { return r.size == tombstoneSize }

type namespace struct {
	rows   hashtable.Table[row, *row] // by key, including tombstones
	newest shelf                      // without tombstones
}

// index holds the last version of each entry, without the values. Its methods may be called
// concurrently.
type index struct {
	// onAhead, if not nil, is called once for each host whose clock is far ahead of this machine's.
	onAhead func(host string, by time.Duration)

	latest latest

	// mu guards the fields below. onChange is called while mu is held: no reader sees a version that
	// was not reported.
	mu         sync.RWMutex
	onChange   func(journal.ID, upstream.Version) // may be nil
	loaded     bool
	namespaces map[string]*namespace
	hosts      []string // by number
	numbers    map[string]uint32
	subjects   int    // rows, including tombstones
	present    int    // rows that are not tombstones
	keys       int64  // bytes of all keys
	revision   uint64 // the highest one
	expiring   []expiry
	foreign    map[string]bool // subjects of the bucket that are not entries: at most mostForeign
}

// mostForeign bounds how many subjects that are not entries the index remembers.
const mostForeign = 10_000

// expiry says when upstream removes a version by its TTL. The version is usually an entry's last trace.
type expiry struct {
	journal.ID
	revision uint64
	at       time.Time
}

func newIndex() *index {
	x := &index{foreign: make(map[string]bool)}
	x.clear()
	return x
}

// clear removes all rows, and returns an index with the removed rows.
func (x *index) clear() (before *index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before = &index{namespaces: x.namespaces, hosts: x.hosts}
	x.loaded, x.subjects, x.present, x.keys, x.revision = false, 0, 0, 0, 0
	x.namespaces, x.expiring = make(map[string]*namespace), nil
	x.hosts, x.numbers = nil, make(map[string]uint32)
	return before
}

// apply adds an entry's version, unless the index has it or a later one. Another program may replace a
// version by one with an earlier time. Copies of the replaced version would then seem newer, so the new
// version gets the smallest later time. earlier reports that the index has a later one.
func (x *index) apply(id journal.ID, v upstream.Version) (earlier bool) {
	ahead := x.latest.see(v, time.Now())
	if ahead > 0 && x.onAhead != nil {
		x.onAhead(v.Writer.Host, ahead)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.find(id); r != nil && r.revision > v.Revision {
		return true
	} else if r != nil && r.revision < v.Revision && upstream.Micros(v.WrittenAt) < r.written {
		v.WrittenAt = seconds(r.written + 1)
	}
	if x.put(id, v) {
		x.tell(id, v)
	}
	return false
}

func (x *index) tell(id journal.ID, v upstream.Version) {
	if x.onChange != nil {
		v.Value = ""
		x.onChange(id, v)
	}
}

// put stores a version if it is later than the known one. The caller holds mu.
func (x *index) put(id journal.ID, v upstream.Version) bool {
	x.revision = max(x.revision, v.Revision)
	ns := x.namespaces[id.Namespace]
	if ns == nil {
		ns = &namespace{}
		x.namespaces[id.Namespace] = ns
	}
	r := ns.rows.Get(id.Key)
	switch {
	case r == nil:
		r = &row{}
		ns.rows.Insert(id.Key, r)
		x.subjects++
		x.keys += int64(len(id.Key))
	case r.revision >= v.Revision:
		return false
	case !r.deleted():
		x.hide(ns, r)
	}
	x.fill(r, v)
	if !r.deleted() {
		ns.newest.insert(r, x.later)
		x.present++
	}
	return true
}

// hide removes an entry from the listings. The caller holds mu.
func (x *index) hide(ns *namespace, r *row) {
	ns.newest.remove(r, x.later)
	x.present--
}

func (x *index) fill(r *row, v upstream.Version) {
	r.revision, r.seq = v.Revision, v.Writer.Seq
	r.created, r.written = upstream.Micros(v.CreatedAt), upstream.Micros(v.WrittenAt)
	r.size, r.host = int32(min(v.ListBytes, math.MaxInt32)), x.number(v.Writer.Host)
	if v.Deleted {
		r.size = tombstoneSize
	}
}

// number returns the number of a host. Rows hold numbers because names are long.
func (x *index) number(host string) uint32 {
	n, known := x.numbers[host]
	if !known {
		n = uint32(len(x.hosts))
		x.hosts = append(x.hosts, host)
		x.numbers[host] = n
	}
	return n
}

// later reports whether a is later than b, by the order that decides between two hosts' writes, and
// then by key.
func (x *index) later(a, b *row) bool {
	switch {
	case a.written != b.written:
		return a.written > b.written
	case a.host != b.host:
		return x.hosts[a.host] > x.hosts[b.host]
	case a.seq != b.seq:
		return a.seq > b.seq
	}
	return a.Key() < b.Key()
}

func (x *index) version(r *row) upstream.Version {
	return upstream.Version{
		Revision: r.revision, Deleted: r.deleted(), ListBytes: max(int(r.size), 0),
		CreatedAt: seconds(r.created), WrittenAt: seconds(r.written),
		Writer: upstream.Writer{Host: x.hosts[r.host], Seq: r.seq},
	}
}

// get returns an entry's last version, without its value. known is false until the whole bucket has
// been read.
func (x *index) get(id journal.ID) (v upstream.Version, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r := x.find(id); r != nil {
		v = x.version(r)
	}
	return v, x.loaded
}

func (x *index) find(id journal.ID) *row {
	ns := x.namespaces[id.Namespace]
	if ns == nil {
		return nil
	}
	return ns.rows.Get(id.Key)
}

// rows visits up to most of a namespace's entries, newest first, and returns their total number. For known,
// see get.
func (x *index) rows(name string, most int, visit func(key string, v upstream.Version)) (total int, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ns := x.namespaces[name]
	if ns == nil {
		return 0, x.loaded
	}
	for r := range ns.newest.all() {
		if most--; most < 0 {
			break
		}
		visit(r.Key(), x.version(r))
	}
	return ns.newest.len, x.loaded
}

// figures are the index's numbers for a report.
type figures struct {
	entries, subjects int
	foreign           int // subjects that are not entries; at mostForeign there may be more
	revision          uint64
	memory            int64 // approximate size in bytes
}

// rowMemory is a row's size in bytes without its key: itself, its bucket in the table, its place in the
// order, and the allocator's rounding of the key.
const rowMemory = 64 + 8 + 10 + 8

// namespaceMemory is the approximate size in bytes of a namespace without its rows.
const namespaceMemory = 300

func (x *index) figures() figures {
	x.mu.RLock()
	defer x.mu.RUnlock()
	memory := int64(x.subjects)*rowMemory + x.keys + int64(len(x.namespaces))*namespaceMemory
	return figures{entries: x.present, subjects: x.subjects, foreign: len(x.foreign), revision: x.revision, memory: memory}
}

// addForeign records a subject of the bucket that is not an entry.
func (x *index) addForeign(subject string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.foreign) < mostForeign {
		x.foreign[subject] = true
	}
}

// forgetForeign forgets the subjects that are not entries, before the whole bucket is read.
func (x *index) forgetForeign() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.foreign)
}

// setLoaded records that the whole bucket has been read.
func (x *index) setLoaded() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded = true
}

// clocksApart bounds how far ahead another host's clock may be before its times no longer affect this
// host's writes to other entries.
const clocksApart = time.Minute

// latest holds the latest write time seen: a hybrid clock. A new write gets a later time, because this
// host had already seen the other write. Its methods may be called concurrently.
type latest struct {
	mu     sync.Mutex
	micros int64 // since 1970
	ahead  map[string]bool
}

// see records a version's time. For the first version of a host whose clock is far ahead, it returns
// how far; otherwise 0. A time far ahead does not count: one wrong clock would push all hosts' writes
// into the future.
func (l *latest) see(v upstream.Version, now time.Time) time.Duration {
	at := upstream.Micros(v.WrittenAt)
	ahead := time.Duration(at-now.UnixMicro()) * time.Microsecond
	l.mu.Lock()
	defer l.mu.Unlock()
	if ahead <= clocksApart {
		l.micros = max(l.micros, at)
		return 0
	}
	if l.ahead[v.Writer.Host] {
		return 0
	}
	if l.ahead == nil {
		l.ahead = make(map[string]bool)
	}
	l.ahead[v.Writer.Host] = true
	return ahead
}

func (l *latest) get() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.micros
}
