// Package cluster runs real NATS servers for the tests of the engine for many hosts: one in this
// process, or three, each a process of its own. It is a module of its own, so that the server is no
// part of the daemon's module graph.
package cluster

import _ "github.com/nats-io/nats-server/v2/server"
