// Command scale measures botwired over a bucket on three NATS servers, beside the same over BotWire's memory
// service with SQLite, in one run: how long another host takes to see a write, what it costs to watch a
// bucket, how fast pending writes drain, and a LIST of a large namespace.
//
//	make scale
//
// All servers and daemons are processes of their own on this machine, and the servers sync each write. Between
// two machines, the network comes on top of each figure. The program writes its table into a page, between
// the lines <!-- scale --> and <!-- /scale -->.
package main
