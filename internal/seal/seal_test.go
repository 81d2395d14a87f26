package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/botwired/botwired/internal/seal"
)

func load(t testing.TB, text string) *seal.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := seal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keys(t testing.TB) *seal.Keys { return load(t, string(seal.Generate())) }

var value = seal.Value{WrittenAt: 1_700_000_000_123_456, Host: "0123456789abcdef", Seq: 42, Author: "écrivain", Value: "the value"}

func TestSealAndOpen(t *testing.T) {
	n := keys(t).For("agents")
	rapid.Check(t, func(t *rapid.T) {
		v := seal.Value{
			WrittenAt: rapid.Int64().Draw(t, "at"), Seq: rapid.Uint64().Draw(t, "seq"),
			Host: rapid.StringN(0, 16, 64).Draw(t, "host"), Author: rapid.StringN(0, 64, 256).Draw(t, "author"),
			Value: strings.Repeat(string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value")), rapid.IntRange(1, 400).Draw(t, "times")),
		}
		key := rapid.StringMatching(`[a-zA-Z0-9_.-]{1,80}`).Draw(t, "key")
		sealed := n.Seal(key, v)
		opened, _, err := n.Open(key, sealed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, opened); diff != "" {
			t.Fatalf("opened (-sealed +opened):\n%s", diff)
		}
		if len(sealed) > max(seal.MostBytes(len(v.Value)), seal.Limit) {
			t.Fatalf("%d bytes sealed are %d, more than %d", len(v.Value), len(sealed), seal.MostBytes(len(v.Value)))
		}
		if seal.Fits(v.Value) && len(sealed) > seal.Limit {
			t.Fatalf("%d bytes fit, and are %d sealed", len(v.Value), len(sealed))
		}
	})
}

// A value of any length has a sealed form of MostBytes at most, whose lengths are few.
func TestSizes(t *testing.T) {
	n := keys(t).For("agents")
	random := rand.NewChaCha8([32]byte{})
	longest := seal.Value{Host: strings.Repeat("h", 64), Author: strings.Repeat("\U0001F916", 64)}
	fits := 0
	for seal.MostBytes(fits+1) <= seal.Limit {
		fits++
	}
	lengths := map[int]bool{}
	for plain := 0; plain <= fits; plain = max(plain+1, min(plain+plain/50, fits)) {
		b := make([]byte, plain)
		_, _ = random.Read(b)
		v := longest
		v.Value = string(b)
		sealed := n.Seal("k", v)
		if most := seal.MostBytes(plain); len(sealed) != most || !seal.Fits(v.Value) {
			t.Fatalf("%d bytes: %d sealed, at most %d", plain, len(sealed), most)
		}
		lengths[len(sealed)] = true
		if plain == fits {
			break
		}
	}
	if fits < 74_000 || len(lengths) > 160 {
		t.Errorf("%d bytes fit, %d lengths", fits, len(lengths))
	}
	for text, want := range map[string]bool{
		strings.Repeat("a sentence of a diary; ", 4347): true, // 99,981 bytes
		strings.Repeat("\U0001F916", 100_000):           true,
		strings.Repeat("\U0001F916", 100_001):           false,
	} {
		if got := seal.Fits(text); got != want {
			t.Errorf("%d bytes fit: %v", len(text), got)
		}
		v := longest
		v.Value = text
		if opened, _, err := n.Open("k", n.Seal("k", v)); want && (err != nil || opened != v) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	noise := make([]byte, fits+400)
	_, _ = random.Read(noise)
	if seal.Fits(string(noise)) {
		t.Errorf("%d random bytes fit", len(noise))
	}
}

// Nothing but the whole sealed value opens, and only in its own place.
func TestForgeries(t *testing.T) {
	k := keys(t)
	n := k.For("agents")
	sealed := n.Seal("key", value)
	refused := func(what, key, text string, n *seal.Namespace) {
		t.Helper()
		var unknown *seal.UnknownKey
		v, id, err := n.Open(key, text)
		if !errors.Is(err, seal.ErrForged) && !errors.Is(err, seal.ErrNotSealed) && !errors.As(err, &unknown) || v != (seal.Value{}) || id != "" {
			t.Errorf("%s: %+v, %q, %v", what, v, id, err)
		}
	}
	for i := range sealed {
		refused("cut", "key", sealed[:i], n)
		refused("a byte less", "key", sealed[:i]+sealed[i+1:], n)
		for _, c := range []byte{sealed[i] ^ 1, 'A', '_', '+', '/', '=', '\n', ' ', 0, 0xff} {
			if c != sealed[i] {
				refused("flipped", "key", sealed[:i]+string([]byte{c})+sealed[i+1:], n)
			}
			refused("extended", "key", sealed[:i]+string([]byte{c})+sealed[i:], n)
		}
	}
	raw, _ := base64.RawURLEncoding.DecodeString(sealed[4:])
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			refused("a bit", "key", "bw1."+base64.RawURLEncoding.EncodeToString(raw), n)
			raw[i] ^= 1 << bit
		}
	}
	for _, more := range []string{"\n", "A", "AAAA", "=", " ", sealed} {
		refused("extended", "key", sealed+more, n)
		refused("extended before", "key", more+sealed, n)
	}
	refused("another alphabet", "key", "bw1."+base64.StdEncoding.EncodeToString(raw), n)
	refused("moved to a key", "key2", sealed, n)
	refused("moved to a namespace", "key", sealed, k.For("agents2"))
	refused("moved across the border of the names", "1key", sealed, k.For("agent"))
	refused("another memory's", "key", sealed, keys(t).For("agents"))
	for _, plain := range []string{"", "plain", "bw1", "bw2." + sealed[4:], "BW1." + sealed[4:], "bw1."} {
		refused("plain", "key", plain, n)
	}
	if _, _, err := n.Open("key", "plain"); !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("plain: %v", err)
	}
	if _, _, err := n.Open("key2", sealed); !errors.Is(err, seal.ErrForged) {
		t.Errorf("moved: %v", err)
	}
}

func TestRotation(t *testing.T) {
	old := string(seal.Generate())
	lines := strings.Split(old, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "seal ") })
	j := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "name ") })
	fresh := strings.Split(string(seal.Generate()), "\n")[i]
	before := load(t, old)
	after := load(t, "# rotated\r\n\n  open "+lines[i][5:]+"\r\n"+fresh+"\n"+lines[j])
	if before.ID() == after.ID() || !cmp.Equal(after.IDs(), []string{after.ID(), before.ID()}) || !cmp.Equal(before.IDs(), []string{before.ID()}) {
		t.Errorf("before %s, after %s", before.IDs(), after.IDs())
	}
	o, n := before.For("agents"), after.For("agents")
	if o.Name() != n.Name() {
		t.Error("the namespace has another name")
	}
	if v, id, err := n.Open("key", o.Seal("key", value)); v != value || id != before.ID() || err != nil {
		t.Errorf("the old value: %+v, %s, %v", v, id, err)
	}
	var unknown *seal.UnknownKey
	if _, _, err := o.Open("key", n.Seal("key", value)); !errors.As(err, &unknown) || unknown.ID != after.ID() {
		t.Errorf("the new value on a host with the old file: %v", err)
	}
}

func TestNames(t *testing.T) {
	k := keys(t)
	n := k.For("agents")
	if name := n.Name(); len(name) != 46 || !strings.HasPrefix(name, "s1-") || name == k.For("agents2").Name() {
		t.Errorf("the namespace's name: %s", name)
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-zA-Z0-9_.-]{1,80}`).Draw(t, "key")
		sealed, ok := n.Key(key)
		again, _ := n.Key(key)
		opened, opens := n.OpenKey(sealed)
		if !ok || sealed != again || !opens || opened != key || len(sealed) > 128 || strings.Contains(sealed, key) && len(key) > 3 {
			t.Fatalf("%q is %q, %q, and opens as %q, %v", key, sealed, again, opened, opens)
		}
		at := rapid.IntRange(0, len(sealed)-1).Draw(t, "at")
		for _, c := range []byte{sealed[at] ^ 1, sealed[at] + 1, '\n', '='} {
			for _, forged := range []string{sealed[:at] + string([]byte{c}) + sealed[at+1:], sealed[:at] + string([]byte{c}) + sealed[at:], sealed[:at]} {
				if opened, ok := n.OpenKey(forged); ok || opened != "" {
					t.Fatalf("%q opens as %q", forged, opened)
				}
			}
		}
		if _, ok := k.For("agents2").OpenKey(sealed); ok {
			t.Fatal("it opens in another namespace")
		}
	})
	for _, plain := range []string{"", "plain", strings.Repeat("A", 128), strings.Repeat("A", 127)} {
		if key, ok := n.OpenKey(plain); ok {
			t.Errorf("%q opens as %q", plain, key)
		}
	}
	if _, ok := n.Key(strings.Repeat("k", 81)); ok {
		t.Error("a key of 81 characters has a name")
	}
	if sealed, ok := n.Key(strings.Repeat("k", 80)); !ok || len(sealed) != 128 {
		t.Errorf("a key of 80 characters: %d, %v", len(sealed), ok)
	}
}

// A cloned machine repeats its random bytes, and no nonce for another content.
func TestRepeatedRandom(t *testing.T) {
	k := keys(t)
	for what, random := range map[string]io.Reader{"repeats": zeros{}, "fails": bytes.NewReader(nil)} {
		n := k.WithRandom(random).For("agents")
		seen := map[string]string{}
		for _, v := range []seal.Value{
			value,
			{WrittenAt: 1}, {Host: "a"}, {Host: "b"}, {Seq: 1}, {Seq: 2}, {Author: "a"}, {Value: "a"}, {Value: "b"}, {Host: "a", Author: "b"}, {Host: "ab"},
		} {
			for _, key := range []string{"a", "b"} {
				sealed := n.Seal(key, v)
				raw, _ := base64.RawURLEncoding.DecodeString(sealed[4:])
				nonce := string(raw[8:32])
				if other, ok := seen[nonce]; ok {
					t.Errorf("%s: %+v has the nonce of %s", what, v, other)
				}
				seen[nonce] = sealed
			}
		}
	}
	n := k.For("agents")
	if first, second := n.Seal("a", value), n.Seal("a", value); first == second {
		t.Error("a value is sealed twice alike")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestKeyFiles(t *testing.T) {
	whole := string(seal.Generate())
	key := func(role string) string {
		_, line, _ := strings.Cut(whole, role+" ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	other := strings.Split(string(seal.Generate()), "seal ")[1]
	damaged := []byte(key("seal"))
	damaged[9] ^= 1
	for name, text := range map[string]string{
		"empty":                "",
		"comments":             "# nothing\n",
		"cut":                  whole[:len(whole)-2],
		"cut to a line":        whole[:len(whole)-2-len(key("seal"))],
		"no name key":          "seal " + key("seal") + "\n",
		"no sealing key":       "name " + key("name") + "\nopen " + key("seal") + "\n",
		"two sealing keys":     whole + "seal " + other,
		"two name keys":        whole + "name " + other,
		"one key twice":        whole + "open " + key("seal") + "\n",
		"the name key to open": whole + "open " + key("name") + "\n",
		"an unknown line":      whole + "expire 2030\n",
		"three words":          whole + "open " + strings.TrimSpace(other) + " yes\n",
		"damaged":              "name " + key("name") + "\nseal " + string(damaged) + "\n",
		"binary":               "\x00\x01\x02",
		"long":                 whole + strings.Repeat("# and more\n", 10_000),
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := seal.Load(path)
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), key("seal")) || strings.Contains(err.Error(), key("name")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzName(f *testing.F) {
	n := keys(f).For("agents")
	sealed, _ := n.Key("key")
	f.Add(sealed)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if key, ok := n.OpenKey(text); ok {
			if again, _ := n.Key(key); again != text {
				t.Errorf("%q opens as %q, whose name is %q", text, key, again)
			}
		}
		sealed, ok := n.Key(text)
		if ok != (len(text) <= seal.MostKey) {
			t.Errorf("%q: %v", text, ok)
		}
		// No key of BotWire's ends in a zero byte.
		if opened, opens := n.OpenKey(sealed); ok && !strings.HasSuffix(text, "\x00") && (!opens || opened != text) {
			t.Errorf("%q opens as %q, %v", text, opened, opens)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	n := keys(f).For("agents")
	f.Add(n.Seal("key", value), "key")
	f.Add("bw1.", "key")
	f.Add(strings.Repeat("long ", 20_000), "key")
	f.Fuzz(func(t *testing.T, text, key string) {
		if v, _, err := n.Open(key, text); err == nil && v != value {
			t.Errorf("%q opens as %+v", text, v)
		}
		v := seal.Value{Value: text}
		if opened, _, err := n.Open("key", n.Seal("key", v)); len(text) <= 400_000 && (err != nil || opened != v) {
			t.Errorf("%q: %+v, %v", text, opened, err)
		}
	})
}
