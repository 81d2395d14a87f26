package seal

import "io"

// WithRandom returns the keys with another random source.
func (k *Keys) WithRandom(r io.Reader) *Keys {
	other := *k
	other.random = r
	return &other
}

// The primitive, for its vectors.
type XAES struct{ x *xaes }

func NewXAES(key []byte) XAES { return XAES{newXAES(key)} }

func (x XAES) Seal(nonce, plain, data []byte) []byte { return x.x.seal(nil, nonce, plain, data) }

func (x XAES) Open(nonce, sealed, data []byte) ([]byte, error) {
	return x.x.open(nil, nonce, sealed, data)
}
