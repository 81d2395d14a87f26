// Command mutants takes the guards of the contract out, one at a time, and sees that a
// test fails each time: anybody may lose a guard that no test misses.
//
// mutants.txt is the list. A row names the point of docs/contract.md and the guard,
// shows the lines that go and the lines that come, and says what to give to go test:
//
//	point 8: an answer that a write has overtaken is dropped
//	file journal/settle.go
//	-	if !valid() {
//	+	if !valid() && false {
//	test ./journal -run ^TestOvertakenFillIsDropped$
//
// Lines that begin with # are comments. A row may change more than one file. The file
// must contain the lines that go exactly once, or the row is out of date.
//
// The tree itself is never changed: the build lays the changed files over it (go build
// -overlay), so a row recompiles only the package that it changes and those that import
// it. The row then runs only the tests that it names, and ends at the first failure.
//
// First the command sees every named test pass as the tree is. It fails if a test fails
// then, if a row no longer applies or compiles, or if no test failed for a row.
package main
