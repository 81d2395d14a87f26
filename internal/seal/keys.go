package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
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
	seal   key
	open   []key // seal is the first
	random io.Reader
}

type key struct {
	secret []byte
	id     [idSize]byte
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
func Load(path string) (*Keys, error) {
	file, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// open opens a key file, which nobody but its owner may read.
func open(path string) (*os.File, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	// Mounted secrets are links inside their directory.
	if inside, err := filepath.Rel(folder, resolved); err != nil || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("it is a link to %s: expected a file, or a link that stays in its directory", resolved)
	}
	if info, err := os.Stat(resolved); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // opening a pipe would wait
		return nil, errors.New("expected a regular file")
	}
	file, err := os.Open(resolved)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = private(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// private returns an error if others may read or change the file. Only the unit can read a credential of
// systemd, though its group bits, the mask of an access control list, say otherwise.
func private(path string, info os.FileInfo) error {
	if credentials := os.Getenv("CREDENTIALS_DIRECTORY"); runtime.GOOS == "windows" ||
		filepath.IsAbs(credentials) && filepath.Dir(path) == filepath.Clean(credentials) {
		return nil
	}
	return privateTo(os.Geteuid(), ownerOf(info), info.Mode().Perm())
}

func privateTo(user, owner int, mode os.FileMode) error {
	others := mode & 0o077
	if owner == 0 && user != 0 {
		others = mode & 0o037 // root gives it to this user by its group, as Kubernetes does
	}
	switch {
	case owner != 0 && owner != user:
		return fmt.Errorf("it belongs to user %d: expected a file of the daemon's user, or of root", owner)
	case others != 0: // guard 23.23
		return fmt.Errorf("mode %04o lets others read or change it: expected 0600 (chmod 600)", mode)
	}
	return nil
}

func parse(text []byte) (*Keys, error) {
	if len(text) > mostFile {
		return nil, fmt.Errorf("expected a key file of %d bytes at most", mostFile)
	}
	k := &Keys{random: rand.Reader}
	seen := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := k.add(fields, seen); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	switch {
	case k.name == nil && len(k.open) == 0:
		return nil, errors.New(`no key is in it: expected a file that "botwired seal keygen" made`)
	case k.name == nil:
		return nil, errors.New("expected one line name KEY, and there is none")
	case k.seal.secret == nil:
		return nil, errors.New("expected one line seal KEY, and there is none")
	}
	return k, nil
}

func (k *Keys) add(fields []string, seen map[string]bool) error {
	if len(fields) != 2 {
		return errors.New("expected name KEY, seal KEY, open KEY or a comment that begins with #")
	}
	secret, err := encoding.DecodeString(fields[1])
	if err != nil || len(secret) != keySize+checkSize {
		return errors.New("the key is not whole: expected 48 characters of base64url")
	}
	secret, sum := secret[:keySize], secret[keySize:]
	if !bytes.Equal(sum, check(secret)) {
		return errors.New("the key is damaged: its checksum is wrong")
	}
	if seen[string(secret)] {
		return errors.New("expected each key once, and this one is there twice")
	}
	seen[string(secret)] = true
	added := key{secret: secret, id: [idSize]byte(keyID(secret))}
	switch fields[0] {
	case "name":
		if k.name != nil {
			return errors.New("expected one name key, and this is the second")
		}
		k.name = secret
	case "seal":
		if k.seal.secret != nil {
			return errors.New("expected one seal key, and this is the second: make the older one an open key")
		}
		k.seal, k.open = added, append([]key{added}, k.open...)
	case "open":
		k.open = append(k.open, added)
	default:
		return errors.New("expected name KEY, seal KEY, open KEY or a comment that begins with #")
	}
	return nil
}

// NameID returns the ID of the name key, in 16 hexadecimal digits.
func (k *Keys) NameID() string { return hex.EncodeToString(keyID(k.name)) }

// ID returns the ID of the key that seals, in 16 hexadecimal digits.
func (k *Keys) ID() string { return hex.EncodeToString(k.seal.id[:]) }

// IDs returns the IDs of all keys that open, the one that seals first.
func (k *Keys) IDs() []string {
	ids := make([]string, len(k.open))
	for i := range k.open {
		ids[i] = hex.EncodeToString(k.open[i].id[:])
	}
	return ids
}

func keyID(secret []byte) []byte { return mac(secret, []byte("botwired seal id"))[:idSize] }

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
