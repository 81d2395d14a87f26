package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// askLimit leaves half of their time to the checks that wait for the daemon's answer, if none comes.
const askLimit = checkLimit / 2

// ask requests the status of the configured daemon, once for all checks.
func (e *examination) ask(ctx context.Context) (*api.Status, error) {
	e.asked.Do(func() {
		if e.statusErr = e.tokenError; e.statusErr == nil {
			ctx, cancel := context.WithTimeout(ctx, askLimit)
			defer cancel()
			e.status, e.statusErr = e.client.Status(ctx)
		}
	})
	return e.status, e.statusErr
}

func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

func (e *examination) daemon(ctx context.Context) Finding {
	const name = "daemon"
	s, err := e.ask(ctx)
	address := e.loaded.Config.Listen
	switch {
	case e.tokenError != nil:
		return none(name, "the token for it cannot be read")
	case err == nil && s.Version != e.version:
		return warn(name, "botwired serve", "the daemon is %s, and this command is %s: stop the daemon and start it again with", s.Version, e.version)
	case err == nil && e.other != "":
		return warn(name, "export BOTWIRED_LISTEN=127.0.0.1:2700", "%s; for a daemon of your own", e.other)
	case err == nil:
		return good(name, "%s answers at %s", e.version, address)
	case nobodyListens(err) && e.env("BOTWIRE_URL") != "":
		return fail(name, "botwired serve", "none answers at %s, and BOTWIRE_URL sends the agents of this shell to one", address)
	case nobodyListens(err):
		return warn(name, "botwired serve", "none answers at %s", address)
	case api.IsRefused(err, http.StatusUnauthorized):
		return fail(name, "export BOTWIRED_AUTH_TOKEN_FILE=FILE", "%s", err)
	case api.IsRefused(err, http.StatusServiceUnavailable):
		return warn(name, "botwired status", "%s", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(name, "ps ax -o pid,stat,command | grep botwired", "%s; a T in its state says that it is stopped (kill -CONT)", err)
	}
	return fail(name, "export BOTWIRED_LISTEN=127.0.0.1:2700", "%s; to use another address", err)
}

// examined returns the configuration to check: this shell's, with the daemon's data directory and
// upstream if a daemon answers.
func (e *examination) examined(ctx context.Context) (c *config.Config, answers bool) {
	s, err := e.ask(ctx)
	if err != nil {
		return &e.loaded.Config, false
	}
	return e.usedBy(s), true
}

// usedBy returns this shell's configuration with the settings that a daemon uses. If the daemon has
// another upstream, the result lacks this shell's headers, which are secrets.
func (e *examination) usedBy(s *api.Status) *config.Config {
	c := e.loaded.Config
	if s.DataDir != "" {
		c.DataDir = s.DataDir
	}
	if theirs, err := config.ParseUpstream(s.Upstream.URL); err == nil && theirs != c.Upstream.URL {
		c.Upstream.URL, c.Upstream.Headers = theirs, nil // examineCluster drops the context's credentials
	}
	if watch := s.Upstream.Watch; watch != nil && watch.Bucket != "" {
		c.Upstream.NATS.Bucket = watch.Bucket
	}
	return &c
}

func summarized(s *api.Status) Finding {
	const name = "status"
	switch s.Summary.Level {
	case api.LevelCritical:
		return fail(name, "botwired status", "%s", s.Summary.Text)
	case api.LevelWarning:
		return warn(name, "botwired status", "%s", s.Summary.Text)
	}
	return good(name, "%s", s.Summary.Text)
}

func letters(s *api.Status) Finding {
	const name = "dead letters"
	if s.OpenDeadLetters > 0 {
		return warn(name, "botwired dead-letters", "%s", LettersText(s))
	}
	if s.Conflicts > 0 {
		return good(name, "%s; %s", LettersText(s), ConflictsText(s))
	}
	return good(name, "%s", LettersText(s))
}

// ConflictsText says how many states have lost a conflict of two hosts.
func ConflictsText(s *api.Status) string {
	return words.Plural(s.Conflicts, "conflict") + " decided by time: botwired history --lost"
}

// LettersText says how many dead letters there are, and how many of them need a decision.
func LettersText(s *api.Status) string {
	var parts []string
	if n := s.OpenDeadLetters; n > 0 {
		parts = append(parts, fmt.Sprintf("%d to decide on", n))
	}
	if n := s.DeadLetters - s.OpenDeadLetters; n > 0 {
		parts = append(parts, fmt.Sprintf("%d superseded or dropped", n))
	}
	return strings.TrimSuffix(fmt.Sprintf("%d: %s", s.DeadLetters, strings.Join(parts, ", ")), ": ")
}

// quotas checks that no namespace has used up its writes, or is about to.
func (e *examination) quotas(s *api.Status) Finding {
	const name = "quota"
	limited, short := 0, ""
	for _, n := range s.Namespaces {
		q := n.Quota
		switch {
		case q == nil:
			continue
		case q.Left == 0 && q.Used < q.Limit:
			return warn(name, "botwired pending --namespace "+attach.ShellWord(n.Namespace),
				"upstream says that the quota of %s is used up (HTTP 429), after %d of %d writes: until when its writes wait is in", n.Namespace, q.Used, q.Limit)
		case q.Left == 0:
			return warn(name, "botwired pending --namespace "+attach.ShellWord(n.Namespace),
				"%s has used up its %d writes, and gets new ones %s: until then its writes wait; they are in", n.Namespace, q.Limit, term.Ahead(e.reader, q.ResetsAt))
		case n.WaitsLongForQuota():
			return warn(name, "botwired flush", "%s has %d of %d writes left: the last of %s goes out %s; what is left of the quota goes out now with",
				n.Namespace, q.Left, q.Limit, words.Plural(n.Pending, "pending write"), term.Ahead(e.reader, e.now().Add(time.Duration(q.LingerSeconds*float64(time.Second)))))
		case q.RunsOutAt != nil && short == "":
			short = fmt.Sprintf("%s has %d of %d writes left, and at this pace none %s (new ones %s): write to fewer keys, or if upstream allows more",
				n.Namespace, q.Left, q.Limit, term.Ahead(e.reader, *q.RunsOutAt), term.Ahead(e.reader, q.ResetsAt))
		}
		limited++
	}
	if short != "" {
		return warn(name, "export BOTWIRED_QUOTA_WRITES_PER_DAY=N", "%s", short)
	}
	if limited == 0 {
		return good(name, "no namespace has used any")
	}
	return good(name, "%s with a quota, and each has writes left", words.Plural(limited, "namespace"))
}
