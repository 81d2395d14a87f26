package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"io"
	"strings"
)

const (
	// MostKey bounds a key of a sealed namespace, in characters: its sealed form then has 128, the most that
	// BotWire accepts.
	MostKey = 80
	// keyStep is the step in which a sealed key's length tells that of the key.
	keyStep = 16
	ivSize  = aes.BlockSize
)

// Namespace seals and opens the names and values of one namespace. It is safe for concurrent use. To make
// one costs some microseconds: callers keep it.
type Namespace struct {
	namespace string
	hidden    string
	keyMAC    []byte
	keyCipher cipher.Block
	seal      *sealer
	open      map[string]*sealer
	random    io.Reader
}

// sealer is a seal or open key in a namespace.
type sealer struct {
	key
	aead     *xaes
	nonceKey []byte
}

// For returns what seals and opens a namespace.
func (k *Keys) For(namespace string) *Namespace {
	n := &Namespace{
		namespace: namespace,
		hidden:    "s1-" + encoding.EncodeToString(mac(derive(k.name, "namespace", ""), []byte(namespace))),
		keyMAC:    derive(k.name, "key mac", namespace),
		keyCipher: must(aes.NewCipher(derive(k.name, "key cipher", namespace))),
		open:      map[string]*sealer{},
		random:    k.random,
	}
	for _, each := range k.open {
		n.open[each.id] = &sealer{each, newXAES(derive(each.secret, "value", namespace)), derive(each.secret, "nonce", namespace)}
	}
	n.seal = n.open[k.open[0].id]
	return n
}

// Name returns the name that the namespace has upstream: "s1-" and 43 characters.
func (n *Namespace) Name() string { return n.hidden }

// Key returns the name that a key has upstream, always the same one. ok is false if the key is longer than
// [MostKey].
func (n *Namespace) Key(key string) (sealed string, ok bool) {
	if len(key) > MostKey {
		return "", false
	}
	filled := make([]byte, (len(key)+keyStep-1)/keyStep*keyStep)
	copy(filled, key)
	out := make([]byte, ivSize+len(filled))
	iv := out[:copy(out, mac(n.keyMAC, filled)[:ivSize])]
	cipher.NewCTR(n.keyCipher, iv).XORKeyStream(out[ivSize:], filled)
	return encoding.EncodeToString(out), true
}

// OpenKey returns the key with a name upstream. ok is false if this is not what [Namespace.Key] returns for
// any key.
func (n *Namespace) OpenKey(sealed string) (key string, ok bool) {
	raw, err := encoding.DecodeString(sealed)
	if err != nil || len(raw) < ivSize {
		return "", false
	}
	filled := raw[ivSize:]
	cipher.NewCTR(n.keyCipher, raw[:ivSize]).XORKeyStream(filled, filled)
	key = strings.TrimRight(string(filled), "\x00")
	again, ok := n.Key(key)
	if !ok || subtle.ConstantTimeCompare([]byte(again), []byte(sealed)) == 0 {
		return "", false
	}
	return key, true
}
