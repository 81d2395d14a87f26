package main

import "math/rand/v2"

const (
	// valueSize is how long every value is, in bytes.
	valueSize = 200
	// stampSize is how much of a value tells it from all others, in bytes.
	stampSize = 20
	// textSize is how much text values are cut from, in bytes: so much that what is
	// stored together has next to nothing in common and does not compress.
	textSize = 1 << 20
)

// values is random text that values are cut from.
type values []byte

func newValues() values {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ."
	random := rand.New(rand.NewPCG(1, 2)) // each run writes the same
	v := make(values, textSize)
	for i := range v {
		v[i] = letters[random.IntN(len(letters))]
	}
	return v
}

// append appends the value that a connection writes with its n-th request.
func (v values) append(dst []byte, connection, n int) []byte {
	which := uint64(connection)<<40 + uint64(n)
	at := which * 0x9e3779b97f4a7c15 >> 32 % (textSize - valueSize)
	dst = append(dst, v[at:at+valueSize-stampSize]...)
	for i := stampSize - 1; i >= 0; i-- {
		dst = append(dst, byte('0'+which%10))
		which /= 10
	}
	return dst
}
