package sim

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proof/canary"
)

// veil is between the service and a sealing daemon. The service itself goes by plain names and values.
type veil struct {
	keys  *seal.Keys
	watch canary.Watch
	of    map[string]*seal.Namespace // by name
	plain map[string]string          // their names, by hidden name
	seq   uint64                     // of another host
}

// simKeys are the keys of sealing daemons.
var simKeys = sync.OnceValue(func() *seal.Keys {
	file, err := os.CreateTemp("", "keys")
	if err != nil {
		panic(err)
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(seal.Generate()); err != nil {
		panic(err)
	}
	keys, err := seal.Load(file.Name())
	if err != nil {
		panic(err)
	}
	return keys
})

// seals makes a daemon seal all namespaces.
func seals(with *settings) { with.keys, with.name = simKeys(), "here" }

func newVeil(keys *seal.Keys) *veil {
	v := &veil{keys: keys, of: make(map[string]*seal.Namespace), plain: make(map[string]string)}
	v.watch.Headers = []string{skewHeader, hostHeader}
	v.add(namespaces...)
	return v
}

// add has the service know the hidden names of more namespaces.
func (v *veil) add(namespaces ...string) {
	if v == nil {
		return
	}
	for _, namespace := range namespaces {
		n := v.keys.For(namespace)
		v.of[namespace], v.plain[n.Name()] = n, namespace
	}
}

// watched returns l, whose connections are read along if the service's clients seal.
func (v *veil) watched(l net.Listener) net.Listener {
	if v == nil {
		return l
	}
	return v.watch.Listener(l)
}

// open returns the plain name of an entry, or of a namespace.
func (v *veil) open(hidden journal.ID) (id journal.ID, err error) {
	if v == nil {
		return hidden, nil
	}
	namespace, ok := v.plain[hidden.Namespace]
	if id.Namespace = namespace; ok && hidden.Key != "" {
		id.Key, ok = v.of[namespace].OpenKey(hidden.Key)
	}
	if !ok {
		err = fmt.Errorf("contract 23: %s is no hidden name", hidden)
	}
	return id, err
}

// hide returns the name that an entry has upstream.
func (v *veil) hide(id journal.ID) (hidden journal.ID) {
	if v == nil {
		return id
	}
	n := v.of[id.Namespace]
	if hidden.Namespace = n.Name(); id.Key != "" {
		hidden.Key, _ = n.Key(id.Key)
	}
	return hidden
}

// value returns the plain value of a sealed one.
func (v *veil) value(id journal.ID, text string) (string, error) {
	if v == nil {
		return text, nil
	}
	opened, _, err := v.of[id.Namespace].Open(id.Key, text)
	if err != nil {
		err = fmt.Errorf("contract 23: the value of %s is not sealed: %w", id, err)
	}
	return opened.Value, err
}

// seal seals a value as another host does. Of two writes in the same moment, that of the daemon is the later one.
func (v *veil) seal(id journal.ID, value string) string {
	if v == nil {
		return value
	}
	v.seq++
	return v.of[id.Namespace].Seal(id.Key, seal.Value{WrittenAt: time.Now().UnixMicro(), Host: "away", Seq: v.seq, Value: value})
}

// size returns the size of a value in a list. All hosts have names of one length.
func (v *veil) size(id journal.ID, value string) int {
	if v == nil {
		return len(value)
	}
	return len(v.of[id.Namespace].Seal(id.Key, seal.Value{Host: "here", Value: value}))
}
