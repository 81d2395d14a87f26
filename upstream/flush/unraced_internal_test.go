//go:build !race

package flush

// Fewer is one: the tests run in full.
const Fewer = 1
