// Package natskv is the engine for many hosts: it keeps the memory in a NATS JetStream key-value
// bucket.
//
// # Layout
//
// The entry KEY of the namespace NS has the subject $KV.BUCKET.NS.KEY, with "=" for each "." of the
// key. The message's body is the unchanged value, in UTF-8. Its headers hold the other fields of BotWire's
// API, and the writer: see the constants of message.go. A delete leaves a message without a body,
// KV-Operation: DEL, which also has those headers.
//
// # Watching
//
// A session creates its own consumer. nats.go's KeyValue.Watch leaves out the headers, which hold the
// fields of the versions. Its OrderedConsumer creates the next consumer before the mark has been
// compared with the bucket. It also keeps trying when the bucket is gone, even after the context of
// Next has ended.
//
// # Files
//
//	engine.go    the engine: its options, opening, closing
//	connect.go   the connection
//	bucket.go    the bucket: making it, and checking its settings
//	message.go   entries as messages: subjects, headers, bodies
//	request.go   the requests: Get, Swap, List, Revisions
//	failure.go   NATS' errors: verdicts and reasons
//	index.go     all entries without their values, in memory, and the latest write time
//	shelf.go     the rows of a namespace in order
//	vanish.go    entries that upstream has forgotten
//	view.go      the engine's methods that read the index
//	watch.go     keeps the index up to date, and knows whether it is
//	session.go   the stream's messages, from a revision on
//	look.go      the request for the stream's state
//	progress.go  how far the watch has come, and whether the index is complete
//	mark.go      the stream as it was last seen: one that went back has lost writes
//	sweep.go     removal of old tombstones
//	examine.go   the check of servers and bucket for botwired doctor, TLS and credentials
package natskv
