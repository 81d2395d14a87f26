package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/internal/identity"
)

// examinedStatus is the daemon's status, as far as doctor judges it.
type examinedStatus struct {
	status
	DataDir  cell `json:"data_dir"`
	Identity struct {
		Start  cell `json:"start"`
		Newest struct {
			Reason cell `json:"reason"`
			Detail cell `json:"detail"`
			At     cell `json:"at"`
		} `json:"newest_doubt"`
	} `json:"identity"`
	Callers    []examinedCaller    `json:"callers"` // nil if the daemon does not say
	Namespaces []examinedNamespace `json:"namespaces"`
}

type examinedCaller struct {
	Agent  cell `json:"agent"`
	LastAt cell `json:"last_at"`
}

// time is zero if the daemon does not say.
func (c examinedCaller) time() time.Time {
	at, err := time.Parse(time.RFC3339, c.LastAt.moment())
	if err != nil {
		return time.Time{}
	}
	return at
}

type examinedNamespace struct {
	namespaceStatus
	Quota struct {
		Limit    cell `json:"limit"`
		Left     cell `json:"left"`
		ResetsAt cell `json:"resets_at"`
		RunsOut  cell `json:"runs_out_at"`
	} `json:"quota"`
}

// nobodyListens reports whether an error says that no program listens at the daemon's address.
func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// daemon checks that a daemon answers to this command.
func (e *examination) daemon(ctx context.Context) doctor.Finding {
	const name = "daemon"
	s, err := e.ask(ctx)
	listen := e.loaded.Config.Listen
	var refused *statusError
	switch {
	case e.tokenError != nil:
		return doctor.None(name, "the token for it cannot be read")
	case err == nil && s.Ready == "false":
		return doctor.Warn(name, "botwired status", "it answers at %s, and takes no writes now", listen)
	case err == nil:
		return doctor.Good(name, "it answers at %s", listen)
	case nobodyListens(err) && e.env("BOTWIRE_URL") != "":
		return doctor.Fail(name, "botwired serve", "none answers at %s, and BOTWIRE_URL sends the agents of this shell to one", listen)
	case nobodyListens(err):
		return doctor.Warn(name, "botwired serve", "none answers at %s", listen)
	case errors.As(err, &refused) && refused.status == http.StatusUnauthorized:
		return doctor.Fail(name, "export BOTWIRED_AUTH_TOKEN_FILE=FILE", "%s", err)
	case errors.As(err, &refused) && refused.status == http.StatusForbidden:
		return doctor.Fail(name, fmt.Sprintf(`export BOTWIRED_ALLOWED_HOSTS='["%s"]'`, hostOf(listen)), "%s", err)
	case errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable:
		return doctor.Warn(name, "botwired status", "%s", err)
	case errors.Is(err, context.DeadlineExceeded):
		return doctor.Fail(name, "ps ax -o pid,stat,command | grep botwired", "%s; a T in its state says that it is stopped (kill -CONT)", err)
	}
	return doctor.Fail(name, "export BOTWIRED_LISTEN="+e.otherAddress(), "%s", err)
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(dialable(address))
	if err != nil {
		return address
	}
	return host
}

// otherAddress is an address beside the one that the daemon cannot have.
func (e *examination) otherAddress() string {
	const usual = 2700
	host, port, err := net.SplitHostPort(e.loaded.Config.Listen)
	if err != nil || net.ParseIP(host) == nil || !net.ParseIP(host).IsLoopback() {
		host = "127.0.0.1"
	}
	other := usual
	if n, err := strconv.Atoi(port); err == nil && n >= usual && n < 1<<16-1 {
		other = n + 1
	}
	return net.JoinHostPort(host, strconv.Itoa(other))
}

// address checks that a daemon can listen where it is to, if none does.
func (e *examination) address(ctx context.Context) doctor.Finding {
	const name = "address"
	c := &e.loaded.Config
	_, err := e.ask(ctx)
	if err == nil {
		return doctor.Good(name, "the daemon has %s", c.Listen)
	}
	if _, ok := c.Socket(); ok && nobodyListens(err) {
		return doctor.Good(name, "%s is free", c.Listen)
	}
	if !nobodyListens(err) {
		return doctor.None(name, "a program listens at %s", c.Listen)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network(c.Listen), c.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return doctor.Fail(name, "export BOTWIRED_LISTEN="+e.otherAddress(), "%s is in use", c.Listen)
	case err != nil:
		return doctor.Fail(name, "export BOTWIRED_LISTEN="+e.otherAddress(), "%s: %s", c.Listen, notListening(err))
	}
	if err := listener.Close(); err != nil {
		return doctor.Fail(name, "export BOTWIRED_LISTEN="+e.otherAddress(), "%s: %s", c.Listen, err)
	}
	return doctor.Good(name, "%s is free", c.Listen)
}

func (e *examination) sameVersion(s *examinedStatus) doctor.Finding {
	const name = "version"
	if string(s.Version) != e.version {
		return doctor.Warn(name, "botwired serve", "the daemon is %s, and this command is %s: stop the daemon and start it again with", s.Version, e.version)
	}
	return doctor.Good(name, "the daemon and this command are %s", e.version)
}

// otherProcess checks that no process holds the data directory but the daemon that answers.
func (e *examination) otherProcess(ctx context.Context, c *config.Config) doctor.Finding {
	const name = "process"
	dir := c.DataDir
	pid, err := e.holder(filepath.Join(dir, journalDir, "LOCK"))
	_, asked := e.ask(ctx)
	holder := fmt.Sprintf("process %d", pid)
	if pid < 0 {
		holder = "a process of another container"
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return doctor.None(name, "this system does not say who holds a lock")
	case err != nil:
		return doctor.Warn(name, "ls -la "+shellWord(filepath.Join(dir, journalDir)), "the lock on the data directory cannot be seen: %s", unusable(err))
	case pid == 0:
		return doctor.Good(name, "no process holds the lock on %s", dir)
	case nobodyListens(asked) && pid > 0:
		return doctor.Fail(name, fmt.Sprintf("kill %d", pid),
			"%s holds %s, and no daemon answers at %s: it listens elsewhere, or hangs; end it with", holder, dir, e.loaded.Config.Listen)
	case nobodyListens(asked):
		return doctor.Fail(name, "export BOTWIRED_DATA_DIR=/another/directory",
			"%s holds %s, and no daemon answers at %s", holder, dir, e.loaded.Config.Listen)
	}
	return doctor.Good(name, "%s holds the lock on %s", holder, dir)
}

// identity checks that the data directory is where it was, and not a copy.
func (e *examination) identity(ctx context.Context) doctor.Finding {
	const name = "identity"
	c, _ := e.examined(ctx)
	dir := c.DataDir
	s, err := e.ask(ctx)
	var kind identity.Kind
	var why string
	if err == nil {
		kind, why = identity.Kind(s.Identity.Start), string(s.Identity.Newest.Detail)
	} else {
		kind, why = identity.Look(dir, identityFiles)
	}
	switch kind {
	case identity.Copied, identity.Restored:
		return doctor.Warn(name, "export BOTWIRED_DATA_DIR=/another/directory",
			"%s is a copy, or has come back from a backup (%s): if the other one runs too, give one of them its own with", dir, why)
	case identity.New:
		return doctor.None(name, "%s is new", dir)
	case identity.Unknown:
		return doctor.Warn(name, "botwired status", "nobody knows whether %s is a copy (%s): botwired compares what is pending with upstream", dir, why)
	}
	if why != "" {
		return doctor.Good(name, "there was a doubt, and botwired has compared what was pending with upstream since (%s)", why)
	}
	return doctor.Good(name, "%s is where the last daemon left it", dir)
}

// health is how upstream does, as the daemon's own requests show it.
func (s *examinedStatus) health() doctor.Finding {
	const name = "upstream's state"
	if s.Upstream.State == "up" {
		return doctor.Good(name, "the daemon's requests go well")
	}
	return doctor.Warn(name, "botwired status", "%s", s.upstream(io.Discard))
}

func (e *examination) takesWrites(s *examinedStatus) doctor.Finding {
	const name = "writes"
	if why := s.refusesWrites(io.Discard); why != "" {
		return doctor.Fail(name, "df -h "+shellWord(e.usedBy(s).DataDir), "%s", why)
	}
	return doctor.Good(name, "the daemon takes writes; pending: %s", s.pending())
}

// waiting checks that no namespace waits for a person.
func (s *examinedStatus) waiting() doctor.Finding {
	const name = "namespaces"
	for _, n := range s.Namespaces {
		if n.Suspect.Since != "" {
			return doctor.Warn(name, "botwired restore "+shellWord(string(n.Namespace)),
				"upstream lacks %s of the %s entries of %s that it has confirmed; if it has lost them", n.Suspect.Missing, n.Suspect.Of, n.Namespace)
		}
	}
	paused := slices.IndexFunc(s.Namespaces, func(n examinedNamespace) bool { return n.Paused != "" || n.ReadsRefused != "" })
	if paused >= 0 {
		n := s.Namespaces[paused]
		return doctor.Warn(name, "botwired flush --now", "upstream does not let %s in: %s. Correct upstream.url or upstream.headers, then", n.Namespace, n.waits(io.Discard))
	}
	if full := slices.IndexFunc(s.Namespaces, func(n examinedNamespace) bool { return n.full(io.Discard) != "" }); full >= 0 {
		return doctor.Warn(name, "botwired list "+shellWord(string(s.Namespaces[full].Namespace)), "%s", s.Namespaces[full].full(io.Discard))
	}
	return doctor.Good(name, "none waits for you")
}

// quotas checks that no namespace has used up its writes, or is about to.
func (e *examination) quotas(s *examinedStatus) doctor.Finding {
	const name = "quota"
	limited, short := 0, ""
	for _, n := range s.Namespaces {
		q := n.Quota
		switch {
		case q.Limit == "":
			continue
		case q.Left == "0":
			return doctor.Warn(name, "botwired pending --namespace "+shellWord(string(n.Namespace)),
				"%s has used up its %s writes, and gets new ones %s: until then its writes wait; they are in", n.Namespace, q.Limit, ahead(e.reader, q.ResetsAt))
		case q.RunsOut != "" && short == "":
			short = fmt.Sprintf("%s has %s of %s writes left, and at this pace none %s (new ones %s): write to fewer keys, or if upstream allows more",
				n.Namespace, q.Left, q.Limit, ahead(e.reader, q.RunsOut), ahead(e.reader, q.ResetsAt))
		}
		limited++
	}
	if short != "" {
		return doctor.Warn(name, "export BOTWIRED_QUOTA_WRITES_PER_DAY=N", "%s", short)
	}
	if limited == 0 {
		return doctor.Good(name, "no namespace has used any")
	}
	return doctor.Good(name, "%s with a quota, and each has writes left", plural(limited, "namespace"))
}

func (s *examinedStatus) letters() doctor.Finding {
	const name = "dead letters"
	text, decide := s.deadLetters()
	if decide {
		before, _, _ := strings.Cut(text, ":")
		return doctor.Warn(name, "botwired dead-letters", "%s", before)
	}
	if text == "0" {
		text = "none"
	}
	return doctor.Good(name, "%s", text)
}
