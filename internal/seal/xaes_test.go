package seal_test

import (
	"bytes"
	"crypto/sha3"
	"encoding/hex"
	"testing"

	"github.com/botwired/botwired/internal/seal"
)

// The vectors of c2sp.org/XAES-256-GCM.
func TestXAES(t *testing.T) {
	nonce, plain := []byte("ABCDEFGHIJKLMNOPQRSTUVWX"), []byte("XAES-256-GCM")
	for _, v := range []struct {
		key        byte
		data, want string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		x := seal.NewXAES(bytes.Repeat([]byte{v.key}, 32))
		sealed := x.Seal(nonce, plain, []byte(v.data))
		if got := hex.EncodeToString(sealed); got != v.want {
			t.Errorf("key %d: %s, want %s", v.key, got, v.want)
		}
		if opened, err := x.Open(nonce, sealed, []byte(v.data)); err != nil || !bytes.Equal(opened, plain) {
			t.Errorf("key %d: opened %q, %v", v.key, opened, err)
		}
	}
}

// The specification gives a hash over many random messages, sealed one after the other.
func TestXAESAccumulated(t *testing.T) {
	rounds, want := 10_000, "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"
	if !testing.Short() && testing.Verbose() {
		rounds, want = 1_000_000, "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15"
	}
	source, hash := sha3.NewSHAKE128(), sha3.NewSHAKE128()
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = source.Read(b)
		return b
	}
	for range rounds {
		key, nonce := read(32), read(24)
		plain := read(int(read(1)[0]))
		data := read(int(read(1)[0]))
		x := seal.NewXAES(key)
		sealed := x.Seal(nonce, plain, data)
		if opened, err := x.Open(nonce, sealed, data); err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("opened %x, %v", opened, err)
		}
		_, _ = hash.Write(sealed)
	}
	sum := make([]byte, 32)
	_, _ = hash.Read(sum)
	if got := hex.EncodeToString(sum); got != want {
		t.Errorf("%d rounds: %s, want %s", rounds, got, want)
	}
}
