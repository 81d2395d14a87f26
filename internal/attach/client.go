// Package attach finds a configuration's daemon, or starts one beside a program that needs it.
//
// [Connect] returns a client whose errors are written for users of a shell. A daemon proves to be of this account
// before a program uses it: see [Prover]. [Run] runs a command beside
// a daemon, and [Link] forwards HTTP requests to one. Both start a daemon if there is none. Such a
// daemon ends after the last program that uses it: see [UntilUnused].
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

// AgentPrefix is the prefix of the User-Agent of botwired's commands, by which the status tells them
// from agents.
const AgentPrefix = "botwired/"

// Client is a client of a configuration's daemon. Its errors say in plain words what failed and what to
// do.
type Client struct {
	*api.Client
	Listen    string // for messages: the address and its source
	token     string
	tokenFile string
	reach     *dialer
}

// Connect returns a client of the configuration's daemon. version is the program's. tell gets a line for the user if
// the daemon does not prove to be of this account, or is at another address: the client uses it all the same.
func Connect(loaded *config.Loaded, version string, tell func(string)) (*Client, error) {
	return connect(loaded, version, tell, true)
}

func connect(loaded *config.Loaded, version string, tell func(string), lenient bool) (*Client, error) {
	token, err := loaded.Config.Token()
	if err != nil {
		return nil, err
	}
	reach := &dialer{
		loaded: loaded, agent: AgentPrefix + version, tell: tell, lenient: lenient, patience: challengePatience,
		token: token, ofToken: sync.OnceValue(func() string { return tokenKey(token) }),
	}
	transport := reach.transport()
	transport.DisableKeepAlives = true
	c := &Client{
		Listen: fmt.Sprintf("%s (setting listen, %s)", loaded.Config.Listen, loaded.Source("listen")),
		token:  token, tokenFile: loaded.Config.Auth.TokenFile, reach: reach,
	}
	c.Client = api.NewClient(api.Options{
		Listen: loaded.Config.Listen, Token: token, UserAgent: AgentPrefix + version, Author: wire.Author(loaded.Author), Transport: transport, Explain: c.explain,
	})
	return c, nil
}

// Foreign returns the error for an answer of another program.
func (c *Client) Foreign() error {
	return fmt.Errorf("another program than botwired listens at %s: its answer is not one of botwired's", c.Listen)
}

func (c *Client) explain(r api.Request, err error) error {
	refused, isRefused := errors.AsType[*api.Refused](err)
	switch {
	case isRefused:
		return c.refusal(r, refused)
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, api.ErrForeign):
		return c.Foreign()
	case errors.Is(err, api.ErrSilent):
		within := r.Within
		if within == 0 {
			within = api.FirstByte
		}
		return fmt.Errorf("no answer came from %s within %s: %w", c.Listen, config.FormatDuration(within), err)
	}
	return fmt.Errorf("cannot reach botwired at %s: %w", c.Listen, notReached(err))
}

// inWords are the statuses of refusals whose text says all. The others may be upstream's or a gateway's, or a
// fault of the daemon's.
var inWords = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
	http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusInsufficientStorage,
}

// inCommandsWords replaces the parameters and paths of the daemon's HTTP by what a command has in their place.
var inCommandsWords = strings.NewReplacer(
	"with local=true", "with --local", "with force=true", "with --force", "all_authors=true", "--all-authors", "Name one with author", "Name one with --author",
	"(POST flush or pending/drop)", "(botwired flush, or botwired pending drop)",
	"If-None-Match: *", "--if-none-match '*'", "If-None-Match", "--if-none-match", "If-Match", "--if-match",
)

// refusal explains a non-2xx answer, if its detail is about HTTP and does not help at a shell.
func (c *Client) refusal(r api.Request, refused *api.Refused) error {
	own := r.Path[0] == api.Surface()[0]
	// The daemon's own challenge asks for its token. Any other 401 is upstream's.
	challenged := own || refused.WantsToken()
	text := ""
	switch {
	case refused.Status == http.StatusUnauthorized && challenged && c.token == "":
		text = "a token is needed (HTTP 401): name the file that holds it with --auth-token-file or BOTWIRED_AUTH_TOKEN_FILE"
	case refused.Status == http.StatusUnauthorized && challenged:
		text = fmt.Sprintf("botwired at %s does not accept the token in %s (HTTP 401): --auth-token-file or "+
			"BOTWIRED_AUTH_TOKEN_FILE names the file that holds the daemon's", c.Listen, c.tokenFile)
	case refused.Status == http.StatusNotFound && own && refused.Detail() == "Not Found":
		text = fmt.Sprintf("another program than botwired listens at %s, such as botwired selfhost: it does not know /%s (HTTP 404); "+
			"say with --listen where the daemon is", c.Listen, strings.Join(r.Path, "/"))
	case refused.Detail() == "":
		text = fmt.Sprintf("HTTP %d from %s: another program than botwired listens there", refused.Status, c.Listen)
	case refused.Meaning() != "" && refused.Status != http.StatusUnprocessableEntity: // its detail is about the arguments
		text = fmt.Sprintf("%s (HTTP %d: %s)", refused.Meaning(), refused.Status, refused.Detail())
	default:
		text = refused.Error()
		if slices.Contains(inWords, refused.Status) {
			text = inCommandsWords.Replace(refused.Detail())
		}
	}
	return words.Plain(text, refused)
}

func notReached(err error) error {
	var dns *net.DNSError
	var timeout net.Error
	var foreign *unproved
	text := ""
	switch {
	case errors.As(err, &foreign):
		text = foreign.why
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		text = `nobody listens there: start the daemon with "botwired serve", or say with --listen where it is`
	case errors.Is(err, fs.ErrPermission):
		text = "this user may not connect to it: use the user that the daemon runs as"
	case errors.As(err, &dns):
		text = "the name " + dns.Name + " has no address: check the setting listen"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text = "no answer came in time: botwired's log may say why"
	case isCut(err):
		text = "the connection was closed before the answer came: the daemon has ended, or another program than botwired listens there"
	case isForeignProtocol(err):
		text = "another program than botwired listens there: its answer is not HTTP"
	default:
		text = words.Reason(err)
	}
	return words.Plain(text, err)
}

// isCut reports whether the other side closed the connection before it answered.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection") // net/http has no type for it
}

// isForeignProtocol reports whether net/http could not parse an answer. It has no error type for this.
func isForeignProtocol(err error) bool {
	return strings.Contains(err.Error(), "malformed HTTP") || strings.Contains(err.Error(), "HTTP/1.x transport connection broken")
}
