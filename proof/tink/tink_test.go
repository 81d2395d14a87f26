package tink

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	xaespb "github.com/tink-crypto/tink-go/v2/proto/x_aes_gcm_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
	"google.golang.org/protobuf/proto"

	"github.com/botwired/botwired/internal/seal"
)

const prefix, namespace = "bw1.", "agents"

// memory is a sealed namespace and its seal key, and Tink with the subkey for its values.
type memory struct {
	*seal.Namespace
	secret []byte
	tink   tink.AEAD
}

func open(t *testing.T) memory {
	path := filepath.Join(t.TempDir(), "keys")
	file := seal.Generate()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(file), "\nseal ")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	secret := raw[:32]
	subkey, err := hkdf.Key(sha256.New, secret, nil, "botwired seal 1 value\x00"+namespace, 32)
	if err != nil {
		t.Fatal(err)
	}
	return memory{keys.For(namespace), secret, xaes(t, subkey)}
}

// xaes returns Tink's XAES-256-GCM, whose text is the nonce and what it seals.
func xaes(t *testing.T, key []byte) tink.AEAD {
	value, err := proto.Marshal(&xaespb.XAesGcmKey{Params: &xaespb.XAesGcmParams{SaltSize: 12}, KeyValue: key})
	if err != nil {
		t.Fatal(err)
	}
	set, err := proto.Marshal(&tinkpb.Keyset{PrimaryKeyId: 1, Key: []*tinkpb.Keyset_Key{{
		KeyData: &tinkpb.KeyData{
			TypeUrl: "type.googleapis.com/google.crypto.tink.XAesGcmKey", Value: value, KeyMaterialType: tinkpb.KeyData_SYMMETRIC,
		},
		Status: tinkpb.KeyStatusType_ENABLED, KeyId: 1, OutputPrefixType: tinkpb.OutputPrefixType_RAW,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(set)))
	if err != nil {
		t.Fatal(err)
	}
	made, err := aead.New(handle)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (m memory) id() []byte {
	h := hmac.New(sha256.New, m.secret)
	h.Write([]byte("botwired seal id"))
	return h.Sum(nil)[:8]
}

func (m memory) data(key string) (data []byte) {
	for _, part := range []string{prefix, string(m.id()), namespace, key} {
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(part))), part...)
	}
	return data
}

// content returns a value's content without zeros at its end.
func content(v seal.Value) []byte {
	c := binary.BigEndian.AppendUint64([]byte{1}, uint64(v.WrittenAt))
	c = binary.BigEndian.AppendUint64(c, v.Seq)
	c = append(append(c, byte(len(v.Host))), v.Host...)
	c = append(binary.BigEndian.AppendUint16(c, uint16(len(v.Author))), v.Author...)
	c = binary.BigEndian.AppendUint32(c, uint32(len(v.Value)))
	return append(binary.BigEndian.AppendUint32(c, uint32(len(v.Value))), v.Value...)
}

func TestTinkAgrees(t *testing.T) {
	m := open(t)
	for n := range 2000 {
		v := seal.Value{
			WrittenAt: rand.Int64(), Seq: rand.Uint64(), Host: fmt.Sprint("host", rand.IntN(100)), Author: strings.Repeat("é", rand.IntN(65)),
			Value: strings.Repeat(fmt.Sprint(n), rand.IntN(2000)),
		}
		key := fmt.Sprint("key.", n)
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(m.Seal(key, v), prefix))
		if err != nil || !bytes.Equal(raw[:8], m.id()) {
			t.Fatalf("%d: %x, %v", n, raw[:8], err)
		}
		opened, err := m.tink.Decrypt(raw[8:], m.data(key))
		if err != nil {
			t.Fatalf("%d: Tink does not open it: %v", n, err)
		}
		if rest, ok := bytes.CutPrefix(opened, content(v)); !ok || len(bytes.Trim(rest, "\x00")) > 0 {
			t.Fatalf("%d: Tink opens %q of %+v", n, opened, v)
		}
		sealed, err := m.tink.Encrypt(append(content(v), make([]byte, rand.IntN(9))...), m.data(key))
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := m.Open(key, prefix+base64.RawURLEncoding.EncodeToString(append(m.id(), sealed...)))
		if err != nil || again != v {
			t.Fatalf("%d: what Tink seals opens as %+v, %v", n, again, err)
		}
	}
}
