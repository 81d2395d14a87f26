package main

import "math/rand/v2"

const (
	// valueSize is the length of every value, in bytes.
	valueSize = 200
	// stampSize is the length of the part that tells a value from all others, in bytes.
	stampSize = 20
	// textSize is the length of the text that values are cut from, in bytes. It is so
	// long that neighbours in a store have next to nothing in common, and do not
	// compress.
	textSize = 1 << 20
)

// values cuts values from random text.
type values []byte

func newValues() values {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ."
	random := rand.New(rand.NewPCG(1, 2)) // the same values in each run
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
