//go:build !race

package flush

// Fewer is one: all lives are lived, for all of their time.
const Fewer = 1
