package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	keySize = 32
	// checkSize is how many bytes of a key's hash follow it in the file.
	checkSize = 4
	idSize    = 8
	// mostFile bounds a key file: some 1,000 keys.
	mostFile = 64 << 10
)

var encoding = base64.RawURLEncoding.Strict()

// Keys are the keys of a key file. They do not change, and are safe for concurrent use.
type Keys struct {
	name   []byte
	open   []key // the first one seals
	random io.Reader
}

type key struct {
	secret []byte
	id     string // idSize bytes
}

// Generate returns the contents of a new key file.
func Generate() []byte {
	var file bytes.Buffer
	file.WriteString("# The keys of a sealed memory: see botwired's docs/sealed.md. Keep a copy of this file in a safe\n" +
		"# place: without it nobody can read what it has sealed. The name key never changes.\n")
	for _, role := range []string{"name", "seal"} {
		secret := make([]byte, keySize)
		_, _ = rand.Read(secret) // it never fails
		fmt.Fprintf(&file, "%s %s\n", role, encoding.EncodeToString(append(secret, check(secret)...)))
	}
	return file.Bytes()
}

func check(secret []byte) []byte {
	sum := sha256.Sum256(secret)
	return sum[:checkSize]
}

// Load reads a key file. It refuses a file that others may read or change, and one with anything in it that
// a key file does not have. Its errors say what is accepted, and hold no part of a key.
func Load(path string) (k *Keys, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	// Mounted secrets are links inside their directory. A link elsewhere hides which file has to be kept and guarded.
	if inside, err := filepath.Rel(folder, file); err != nil || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("it is a link to %s: expected a file, or a link that stays in its directory", file)
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // to read a pipe would wait
		return nil, errors.New("expected a regular file")
	case info.Size() > mostFile:
		return nil, fmt.Errorf("expected a key file of %d bytes at most", mostFile)
	}
	// Only the unit can read a credential of systemd, though its group bits, the mask of an access control list,
	// say otherwise.
	if credentials := os.Getenv("CREDENTIALS_DIRECTORY"); !filepath.IsAbs(credentials) || filepath.Dir(path) != filepath.Clean(credentials) {
		if err := private(info); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parse(string(text))
}

func parse(text string) (*Keys, error) {
	roles, seen := map[string][]key{}, map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		secret, err := parseKey(fields)
		if err == nil && seen[string(secret)] {
			err = errors.New("expected each key once, and this one is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		seen[string(secret)] = true
		roles[fields[0]] = append(roles[fields[0]], key{secret, keyID(secret)})
	}
	names, seals := roles["name"], roles["seal"]
	switch {
	case len(seen) == 0:
		return nil, errors.New(`no key is in it: expected a file that "botwired seal keygen" made`)
	case len(names) != 1:
		return nil, fmt.Errorf("expected one line name KEY, and there are %d", len(names))
	case len(seals) != 1:
		return nil, fmt.Errorf("expected one line seal KEY, and there are %d: an older key is an open key", len(seals))
	}
	return &Keys{names[0].secret, append(seals, roles["open"]...), rand.Reader}, nil
}

// parseKey returns the key of a line.
func parseKey(fields []string) (secret []byte, err error) {
	if len(fields) != 2 || !slices.Contains([]string{"name", "seal", "open"}, fields[0]) {
		return nil, errors.New("expected name KEY, seal KEY, open KEY or a comment that begins with #")
	}
	secret, err = encoding.DecodeString(fields[1])
	if err != nil || len(secret) != keySize+checkSize {
		return nil, errors.New("the key is not whole: expected 48 characters of base64url")
	}
	secret, sum := secret[:keySize], secret[keySize:]
	if !bytes.Equal(sum, check(secret)) {
		return nil, errors.New("the key is damaged: its checksum is wrong")
	}
	return secret, nil
}

// NameID returns the ID of the name key, in 16 hexadecimal digits.
func (k *Keys) NameID() string { return fmt.Sprintf("%x", keyID(k.name)) }

// ID returns the ID of the key that seals, in 16 hexadecimal digits.
func (k *Keys) ID() string { return k.IDs()[0] }

// IDs returns the IDs of all keys that open, the one that seals first.
func (k *Keys) IDs() []string {
	ids := make([]string, len(k.open))
	for i := range k.open {
		ids[i] = fmt.Sprintf("%x", k.open[i].id)
	}
	return ids
}

func keyID(secret []byte) string { return string(mac(secret, []byte("botwired seal id"))[:idSize]) }

// derive returns the subkey of a key for a purpose in a namespace.
func derive(secret []byte, purpose, namespace string) []byte {
	return must(hkdf.Key(sha256.New, secret, nil, "botwired seal 1 "+purpose+"\x00"+namespace, keySize))
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// must returns what a primitive makes of a key whose length is right: the length is its only error.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}
