// Package botwire is the [upstream.Engine] for BotWire's memory API over HTTP: of botwire.dev, of a
// self-hosted server, or of the one inside the daemon.
//
// It owns the HTTP client and the meaning of an HTTP status (contract 15). It decides which answers are
// BotWire's own, and which of them may be passed on to callers. Its [Forwarder] passes on requests that
// are not for the memory API. BotWire has no revisions and does not notify of changes.
//
// An answer is BotWire's own only if it names the requested entry: a captive portal answers 200 to
// anything. The verdicts on all other answers:
//
//	no connection, no byte of it taken     Unsent
//	no whole answer, 502, 504              Unanswered
//	520, 522, 524: the server may have it  Unanswered
//	101: the answer is still to come       Unanswered
//	408, 425, other 5xx, redirects, pages  Transient
//	413, 507: the namespace is full        Paused
//	429                                    Throttled, for Retry-After
//	400, 413, 422, BotWire's own refusal   Permanent
//	400, 413, 422 in any other form        Transient
//	any other 4xx                          Paused
//
// A 503 also means an overload.
//
// A refusal is BotWire's own if it has BotWire's form, and a status that BotWire uses to refuse such
// requests. Otherwise a misconfigured gateway would turn every write into a dead letter.
package botwire
