// Package cluster runs real NATS servers for the tests of the engine for many hosts: one in this
// process, or three, each a process of its own. It is a module of its own, so that the server is no
// part of the daemon's module graph.
//
// [Start] starts the program that calls it again, as a server each: [ServeIfAsked] is the first line
// of such a program. So a kill is a real one, and the stores are files on the disk, synced at each
// write. All bytes between servers, and between a client and a server, go through a [Link] each, which
// can be cut without telling anybody.
package cluster
