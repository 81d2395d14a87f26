//go:build !race

package sim

// fewer is one: all lives are played.
const fewer = 1
