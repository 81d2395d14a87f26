package attach

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/words"
)

// Every account of a machine can listen on a port of loopback, so a program that answers there may be
// anybody's. A daemon proves on each connection, before a client sends anything else, that it is of the
// client's account, or that it has the client's token: it returns a MAC of the client's random challenge
// under a secret that only the account can read, or under the token.
//
// The MAC covers the address that both ends of the connection see. So a program that passes the challenge on to
// the real daemon, at another address, gets a proof that is worth nothing here. It covers the host's name, too:
// accounts may have one home on several hosts. A daemon off loopback may be behind a container's port or a
// tunnel, so its proof by the token names no address: it listens for whoever is on its network anyway.
const (
	// secretFile holds the secret of an account, in the account's own directory and in data_dir.
	secretFile = "run.secret"
	// addressFile holds the address of the data directory's daemon, if a command has started that.
	addressFile = "run.address"

	challengeHeader = "Botwired-Challenge"
	proofHeader     = "Botwired-Proof" // the address, or anywhere, and a MAC for each secret
	anywhere        = "anywhere"
	challengeSize   = 32
	// challengePatience is how long a program may take to prove that it is the account's daemon.
	challengePatience = 5 * time.Second
	// silentFor is how long a program that has not answered counts as silent: a command that starts a daemon
	// beside it looks several times, and would wait for challengePatience each time.
	silentFor = 3 * challengePatience
	// maxProof limits the answer to a challenge, in bytes.
	maxProof = 64 << 10
	// tokenRounds make guesses at a token expensive for who has a proof by it.
	tokenRounds = 100_000
)

var livez = "/" + strings.Join(api.Surface("livez"), "/")

// Prover answers challenges for a daemon.
type Prover struct {
	dirs       []string
	onLoopback bool
}

// NewProver returns a prover with the secrets of this account.
func NewProver(loaded *config.Loaded) *Prover {
	return &Prover{secretDirs(loaded), loaded.Config.OnLoopback()}
}

// secretDirs returns the directories that may hold a secret of this account: the account's own, for daemons and
// clients with different data directories, and the data directory, for those without a home.
func secretDirs(loaded *config.Loaded) (dirs []string) {
	dirs = append(dirs, loaded.UserDir)
	if runtime.GOOS != "windows" { // there, other accounts may read a directory that is not below the home
		dirs = append(dirs, loaded.Config.DataDir)
	}
	return slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool { return dir == "" })
}

// Prepare makes the secrets that are missing. The data directory must be botwired's own.
func (p *Prover) Prepare(logger *slog.Logger) {
	var errs []error
	for _, dir := range p.dirs {
		if readOwn(dir, secretFile) == "" {
			errs = append(errs, writeOwn(dir, secretFile, rand.Text()+rand.Text()))
		}
	}
	if len(errs) == len(p.dirs) && !slices.Contains(errs, nil) {
		logger.Warn("botwired run and botwired mcp cannot know this daemon as this account's, and start their own, unless it has a token",
			"error", words.Unusable(errors.Join(errs...)))
	}
}

// Handler proves to whoever asks livez with a challenge that this daemon has the account's secrets and the
// token. The token may be empty. The address is the one that the connection was made to.
func (p *Prover) Handler(token string, next http.Handler) http.Handler {
	ofToken := sync.OnceValue(func() string { return tokenKey(token) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if challenge := r.Header.Get(challengeHeader); ok && r.URL.Path == livez && len(challenge) == hex.EncodedLen(challengeSize) {
			address := addressOf(local)
			macs := proofs(p.dirs, challenge, address)
			if !p.onLoopback {
				address = anywhere
			}
			if token != "" {
				macs = append(macs, mac(ofToken(), challenge, address))
			}
			w.Header().Set(proofHeader, strings.Join(append([]string{address}, macs...), " "))
		}
		next.ServeHTTP(w, r)
	})
}

// proofs returns the proof by each of the account's secrets.
func proofs(dirs []string, challenge, address string) (list []string) {
	host, _ := os.Hostname() // the same for the daemon and its client, with or without a name
	for _, dir := range dirs {
		if secret := readOwn(dir, secretFile); secret != "" {
			list = append(list, mac(secret, challenge, address, host)) // guard 20.4
		}
	}
	return list
}

func mac(key string, parts ...string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte("botwired proof\n" + strings.Join(parts, "\n"))) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

func tokenKey(token string) string {
	key, err := pbkdf2.Key(sha256.New, token, []byte("botwired token"), tokenRounds, sha256.Size)
	if err != nil {
		panic(err) // only for a length or a hash that FIPS 140 refuses
	}
	return string(key)
}

// addressOf returns an address as both ends of a connection see it. A socket's path may have several names, and no
// other account can pass on what is sent to a socket that it may not open.
func addressOf(a net.Addr) string {
	if a.Network() == "unix" {
		return "socket"
	}
	return a.String()
}

// errSilent is the error for a program that has not answered in time.
var errSilent = &unproved{why: api.ErrSilent.Error()}

// unproved is the error for a program that does not prove to be the account's daemon.
type unproved struct {
	why     string
	answers bool // it speaks HTTP, and may be a daemon of another account
}

func (e *unproved) Error() string { return e.why }

// challenge makes the program at the other end of a new connection prove that it is a daemon of this account, or
// has the token. Until then it sends nothing that says more than that a botwired asks.
func (d *dialer) challenge(ctx context.Context, conn net.Conn, address string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // a closed one needs none
	err := d.exchange(conn, address)
	if !stop() {
		return ctx.Err()
	}
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}

func (d *dialer) exchange(conn net.Conn, address string) error {
	if err := conn.SetDeadline(time.Now().Add(d.patience)); err != nil {
		return err
	}
	random := make([]byte, challengeSize)
	_, _ = rand.Read(random) // never fails
	challenge := hex.EncodeToString(random)
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n%s: %s\r\n\r\n",
		livez, api.Host(address), d.agent, challengeHeader, challenge)
	if err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxProof))
	resp, err := http.ReadResponse(in, nil)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	switch {
	case err == nil:
	case isCut(err):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent
	default:
		return &unproved{why: "another program than botwired listens there: its answer is not HTTP"}
	}
	if err := d.verify(conn.RemoteAddr(), challenge, resp.Header.Get(proofHeader)); err != nil { // guard 20.3
		return err
	}
	if resp.Close || in.Buffered() > 0 {
		return io.EOF // it ends the connection: it stops
	}
	return nil
}

// verify checks a proof.
func (d *dialer) verify(remote net.Addr, challenge, proof string) error {
	stated, macs, _ := strings.Cut(proof, " ")
	given := strings.Fields(macs)
	has := func(want string) bool {
		return slices.ContainsFunc(given, func(mac string) bool { return hmac.Equal([]byte(mac), []byte(want)) })
	}
	address := addressOf(remote)
	if slices.ContainsFunc(proofs(secretDirs(d.loaded), challenge, address), has) {
		return nil
	}
	if d.token == "" {
		return &unproved{"it does not prove to be this account's botwired", true}
	}
	if (stated == address || stated == anywhere) && has(mac(d.ofToken(), challenge, stated)) {
		return nil
	}
	why := "it does not prove to have the token in %s: it is another program, has another token, or is behind a tunnel with another port"
	return &unproved{fmt.Sprintf(why, d.loaded.Config.Auth.TokenFile), true}
}

// dialer connects to a configuration's daemon.
type dialer struct {
	loaded  *config.Loaded
	agent   string
	token   string
	ofToken func() string // the token's key
	tell    func(string)  // gets a line for the user about another daemon than the configuration names; may be nil
	lenient bool          // without a token, an unproved daemon will do, if the user is told
	// patience is challengePatience, or less in tests.
	patience time.Duration

	mu     sync.Mutex
	at     string    // where a daemon has proved itself last; "" before
	silent error     // that of a program at the configured address that has not answered
	until  time.Time // silent counts until then
	told   bool
}

// transport returns a transport whose every connection leads to a proved daemon, and that uses no proxy.
func (d *dialer) transport() *http.Transport {
	t := api.Transport(d.loaded.Config.Listen)
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) }
	return t
}

// dial connects to the daemon at the configured address. If that is none of this account, dial tries the
// one that a command has started for the data directory.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	listen, last := d.loaded.Config.Listen, d.address()
	var why error
	for _, address := range []string{last, listen, readOwn(d.loaded.Config.DataDir, addressFile)} {
		if address == "" || why != nil && address == listen {
			continue
		}
		conn, err := d.proved(ctx, address)
		switch {
		case err == nil && address != listen:
			d.say(fmt.Sprintf("%s: using this account's, of %s, at %s", d.lacks(why), d.loaded.Config.DataDir, address))
			return conn, nil
		case err == nil || ctx.Err() != nil:
			return conn, err
		case address == listen:
			why = err
		}
	}
	if other, ok := errors.AsType[*unproved](why); ok && other.answers && d.lenient && d.token == "" { // guard 20.5
		d.say(d.lacks(why) + ", so its memory may be another account's")
		return dial(ctx, listen)
	}
	return nil, why
}

// lacks says why the configured address leads to no daemon of this account.
func (d *dialer) lacks(why error) string {
	if isForeign(why) {
		return fmt.Sprintf("the program at %s does not prove to be this account's botwired", d.loaded.Config.Listen)
	}
	return "no daemon answers at " + d.loaded.Config.Listen
}

func isForeign(err error) bool {
	_, ok := errors.AsType[*unproved](err)
	return ok
}

func (d *dialer) say(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tell != nil && !d.told {
		d.told = true
		d.tell(text)
	}
}

// address returns where a daemon has proved itself last, or "".
func (d *dialer) address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// proved connects to an address, if the daemon there proves itself. A socket of this account needs no more
// proof, nor one of root, who makes it for a service and its group.
func (d *dialer) proved(ctx context.Context, address string) (net.Conn, error) {
	if err := d.silence(address); err != nil {
		return nil, err
	}
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(address, "unix://"); !ok || !isOwnSocket(path) {
		if err := d.challenge(ctx, conn, address); err != nil {
			_ = conn.Close() // there is a reason already
			err = &net.OpError{Op: "dial", Net: conn.RemoteAddr().Network(), Addr: conn.RemoteAddr(), Err: err}
			d.note(address, err)
			return nil, err
		}
	}
	d.mu.Lock()
	d.at = address
	d.mu.Unlock()
	return conn, nil
}

// silence returns the error of a program that has just not answered at the configured address, or nil.
func (d *dialer) silence(address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if address != d.loaded.Config.Listen || !time.Now().Before(d.until) {
		return nil
	}
	return d.silent
}

// note keeps an error for silence.
func (d *dialer) note(address string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if address == d.loaded.Config.Listen && errors.Is(err, errSilent) {
		d.silent, d.until = err, time.Now().Add(silentFor)
	}
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return api.Transport(address).DialContext(ctx, "", "")
}

func isOwnSocket(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	uid, known := ownerOf(info)
	return known && (uid == os.Geteuid() || uid == 0)
}

// maxOwn limits the files that readOwn reads, in bytes.
const maxOwn = 1 << 10

// readOwn returns the text of a file that only this account can read or write, or "".
func readOwn(dir, name string) string {
	path := filepath.Join(dir, name)
	named, err := os.Lstat(path) // another account may have put a link into a shared directory
	if dir == "" || err != nil || !named.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !os.SameFile(named, info) {
		return ""
	}
	if uid, known := ownerOf(info); known && (uid != os.Geteuid() || info.Mode().Perm()&^lockFileMode != 0) {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOwn))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// writeOwn writes a file that only this account can read or write, and makes its directory.
func writeOwn(dir, name, text string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // there is a reason already
	}
	return err
}
