package seal

import (
	"crypto/aes"
	"crypto/cipher"
)

const nonceSize = 24

// xaes is XAES-256-GCM of c2sp.org/XAES-256-GCM: AES-256-GCM under a key that half of the nonce of 24 bytes
// selects, so that random nonces do not run out.
type xaes struct {
	block cipher.Block
	k1    [aes.BlockSize]byte // the subkey of CMAC
}

func newXAES(key []byte) *xaes {
	x := &xaes{block: must(aes.NewCipher(key))}
	x.block.Encrypt(x.k1[:], x.k1[:])
	var carry byte
	for i := len(x.k1) - 1; i >= 0; i-- {
		x.k1[i], carry = x.k1[i]<<1|carry, x.k1[i]>>7
	}
	x.k1[len(x.k1)-1] ^= carry * 0b10000111
	return x
}

// gcm returns the cipher for the first half of a nonce. Its own nonce is the second half.
func (x *xaes) gcm(nonce []byte) cipher.AEAD {
	var derived [2 * aes.BlockSize]byte
	for i := range 2 {
		block := derived[i*aes.BlockSize:][:aes.BlockSize]
		copy(block, []byte{0, byte(i + 1), 'X', 0})
		copy(block[4:], nonce[:12])
		for j := range block {
			block[j] ^= x.k1[j]
		}
		x.block.Encrypt(block, block)
	}
	return must(cipher.NewGCM(must(aes.NewCipher(derived[:]))))
}

func (x *xaes) seal(dst, nonce, plain, data []byte) []byte {
	return x.gcm(nonce).Seal(dst, nonce[12:], plain, data)
}

func (x *xaes) open(dst, nonce, sealed, data []byte) ([]byte, error) {
	return x.gcm(nonce).Open(dst, nonce[12:], sealed, data)
}
