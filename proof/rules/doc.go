// Package rules holds the project's rules that a machine can see, as tests: who may
// import whom, which package may use which module, that every package says what it owns,
// and that go.mod is tidy.
package rules
