// Command mutants takes the guards of the contract out, one at a time, and sees that a
// test fails each time: a guard that no test misses is one that anybody may lose.
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
// Lines that begin with # are comments. A row may change more than one file. The
// lines that go have to be in the file exactly once, or the row is out of date.
//
// Each row is applied to a copy of the tree, never to the tree itself. First every
// test is seen to pass there as it is. The command fails if a test fails then, if a
// row no longer applies or compiles, or if a guard was not missed.
package main
