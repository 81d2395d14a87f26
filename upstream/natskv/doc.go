// Package natskv is the engine for many hosts: it keeps the memory in a NATS JetStream key-value
// bucket.
//
// # Layout
//
// The entry KEY of the namespace NS is the subject $KV.BUCKET.NS.KEY, in which each "." of the key
// is written "=". The message's body is the value as it is, in UTF-8. Its headers say what BotWire's
// API shows beside it, and who wrote it: see the constants of message.go. A delete leaves a message
// without a body, KV-Operation: DEL, which has those headers too.
//
// # Watching
//
// A session makes its consumer by itself. nats.go's KeyValue.Watch leaves out the headers, which hold
// the versions. Its OrderedConsumer makes the next consumer before the mark has been compared with the
// bucket, and goes on trying where the bucket is gone, although the context of Next has ended.
//
// # Files
//
//	engine.go    the engine: its options, opening, closing, what it reports
//	connect.go   the connection, its TLS and its credentials
//	bucket.go    the bucket: making it, and checking how it was made
//	message.go   entries as messages: subjects, headers, bodies
//	request.go   one request each: version, swap, list, revisions
//	failure.go   what NATS' errors mean: verdicts and reasons
//	index.go     all entries without their values, in memory, and the latest time of a write
//	shelf.go     the rows of a namespace in order
//	vanish.go    entries that upstream has forgotten
//	view.go      the engine's methods that read the index
//	watch.go     keeps the index up to date, and knows whether it is
//	session.go   the stream's messages, from a revision on
//	look.go      the question for the stream's state
//	progress.go  how far the watch has come, and whether the index is complete
//	mark.go      the stream as it was last seen: one that went back has lost writes
//	sweep.go     the end of old tombstones
//	examine.go   the servers and the bucket, for botwired doctor
package natskv
