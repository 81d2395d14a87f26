// Package botwire is the [upstream.Engine] that speaks BotWire's memory API over HTTP: to
// botwire.dev, to a self-hosted server, or to the one inside the daemon.
//
// It owns the HTTP client and the meaning of an HTTP status (contract 15), and knows which
// answers count as BotWire's own, and which of them a caller may be given as they are. Its
// [Forwarder] passes on requests that are not for the memory API. BotWire has no revisions
// and tells of no changes.
//
// An answer is BotWire's own only if it names the entry that was asked for: a captive
// portal answers 200 to anything. The verdicts on all other answers:
//
//	no connection, cut while writing       Unsent
//	no answer, cut afterwards, 504, 524    Unanswered
//	101: the answer is still to come       Unanswered
//	408, 425, other 5xx, redirects, pages  Transient
//	507 to a PUT: the namespace is full    Paused
//	429                                    Throttled, for Retry-After
//	400, 413, 422, BotWire's own refusal   Permanent
//	400, 413, 422 in any other form        Transient
//	any other 4xx                          Paused
//
// With 503, somebody is overloaded.
//
// A refusal is BotWire's own if it has BotWire's form and BotWire refuses such requests
// with its status. Otherwise a gateway that is set up wrongly would turn every write into
// a dead letter.
package botwire
