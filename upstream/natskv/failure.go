package natskv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/upstream"
)

// The servers' error codes that need a treatment of their own. NATS lists all codes in its errors.json.
const (
	codeAccountFull     = 10002 // the account's limit is reached
	codeResources       = 10023 // the server cannot take the request now
	codeStorageFull     = 10047
	codeMessageTooLarge = 10054
	codeWrongStream     = 10056
	codeNotThatStream   = 10060
	codeWrongSequence   = 10071 // names the last sequence number
	codeNoReplicas      = 10074 // a single server cannot have several replicas
	codeStoreFailed     = 10077 // often the stream's own limit is reached
	codeHeaderTooLarge  = 10097
	codeOtherUnderWay   = 10164 // a write to the entry is in flight, or another one has won
	codeTooMany         = 10167
	codeNoPeers         = 10005
	codeNoLeader        = 10008 // the servers have no leader for the account's streams
)

// needsMajority says what ends it if a bucket has no leader for long.
const needsMajority = "start another server, until more than half of them run"

// failure returns a request's error with its verdict.
func (e *Engine) failure(one *call, err error) *upstream.Error {
	var denied *deniedError
	var answer *jetstream.APIError
	switch cause := context.Cause(one.ctx); {
	case errors.As(cause, &denied):
		return denied.failure()
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return one.link.missing()
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return &upstream.Error{
			Verdict: upstream.Unsent, Unreachable: true,
			Reason: "no server answers for the bucket " + e.opts.Bucket + ": JetStream is off, or it has no leader now; if this lasts, " + needsMajority,
		}
	case errors.Is(err, nats.ErrMaxPayload):
		return refusal(upstream.Permanent, fmt.Sprintf("the value is larger than the servers take: their max_payload is %d bytes", one.js.Conn().MaxPayload()))
	case errors.As(err, &answer):
		return e.answered(answer)
	case errors.Is(cause, errBroken):
		return &upstream.Error{Verdict: upstream.Unanswered, Reason: errBroken.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return &upstream.Error{Verdict: upstream.Unanswered, Reason: "no answer within " + e.opts.Timeout.String()}
	}
	return &upstream.Error{Verdict: upstream.Unanswered, Reason: explain(err)}
}

// refusal returns the failure of a request that upstream itself refuses.
func refusal(verdict upstream.Verdict, reason string) *upstream.Error {
	return &upstream.Error{Verdict: verdict, Answered: true, Reason: reason}
}

// answered returns a server's error with its verdict. An error that only a person can end is Paused,
// and a message that is too large is Permanent. Other errors come with a change of leaders or with
// load, and end by themselves.
func (e *Engine) answered(answer *jetstream.APIError) *upstream.Error {
	failed := &upstream.Error{
		Verdict: upstream.Transient, Answered: true, Status: int(answer.ErrorCode),
		Reason: fmt.Sprintf("the servers answer: %s (%d)", answer.Description, answer.ErrorCode),
	}
	switch answer.ErrorCode {
	case codeNoLeader: // nobody has said anything of the bucket
		failed.Verdict, failed.Unreachable, failed.Answered = upstream.Unsent, true, false
		failed.Reason = "the servers have no leader now (" + answer.Description + "); if this lasts, " + needsMajority
	case codeMessageTooLarge, codeHeaderTooLarge:
		failed.Verdict = upstream.Permanent
	case codeTooMany:
		failed.Verdict, failed.Overloaded = upstream.Throttled, true
	case codeResources:
		failed.Overloaded = true
	case codeAccountFull, codeStorageFull:
		failed.Verdict = upstream.Paused
		failed.Reason = "the servers have no room left for the bucket " + e.opts.Bucket + ": raise the account's limits: " + answer.Description
	case codeStoreFailed:
		if strings.Contains(answer.Description, "maximum") {
			failed.Verdict = upstream.Paused
			failed.Reason = "the bucket " + e.opts.Bucket + " is full: raise the limits of its stream: " + answer.Description
		}
	case codeWrongStream, codeNotThatStream:
		failed.Verdict = upstream.Paused
		failed.Reason = "another stream than " + streamName(e.opts.Bucket) + " takes the bucket's subjects: " + answer.Description
	case jetstream.JSErrCodeStreamNotFound: // the watch detects whether it is gone
	default:
		if answer.Code >= 400 && answer.Code < 500 {
			failed.Verdict = upstream.Paused
		}
	}
	return failed
}

// explain describes for people why there is no connection.
func explain(err error) string {
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return "the servers do not let botwired in: check the user and password, or the credentials file (" + err.Error() + ")"
	case errors.As(err, &unknown):
		return "a server's TLS certificate is not trusted: it is signed by an unknown authority"
	case errors.As(err, &name):
		return "a server's TLS certificate is not trusted: it is for another name"
	case errors.As(err, &untrusted):
		return "a server's TLS certificate is not trusted: " + untrusted.Err.Error()
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "a server does not offer TLS, which the settings demand"
	case errors.Is(err, nats.ErrStaleConnection):
		return "the server has been silent for seconds"
	case errors.Is(err, nats.ErrNoServers):
		return "no server takes a connection"
	}
	return err.Error()
}
