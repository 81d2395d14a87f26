// Command mutants takes the guards of the contract out, one at a time, and sees that a
// test fails each time: anybody may lose a guard that no test misses.
//
// In the code, an anchor marks each guard. It is a comment on the line that the guard
// begins, or on a line of its own right above it:
//
//	if !valid() { // guard 8.4
//
// mutants.txt is the list. A row names the anchor and the guard, says what is done to the
// statement, clause, field or declaration that begins at the anchor, and what to give to
// go test:
//
//	guard 8.4: an answer that a write has overtaken is dropped
//	never
//	test ./journal -run ^TestOvertakenFillIsDropped$
//
// The number before the dot is a point of docs/contract.md. The one behind it only tells
// guards apart: a new guard takes the next one, and a guard that goes leaves its number.
// Where several rows change the same code, they name the same anchor; a line has more
// than one, as in "guard 7.3, 8.4", if its guard holds up several points. These things can be done:
//
//	never            the condition of the if, for, case, return or assignment is false
//	always           it is true
//	drop             the statement, the case, or the element of a list goes
//	swap `a` for `b` b replaces a, which the code has once, the lines of its block left out
//	before           the lines that follow, each behind a +, come before the statement
//	after            they come after it
//	becomes          they take its place
//
// Code that drop and becomes take out stays as dead code, so that its variables are used.
// A row that changes more than one place names the others, as in "at 8.4b", and says for
// each what is done there. Lines that begin with # are comments.
//
// The tree itself is never changed: the build lays the changed files over it (go build
// -overlay), so a row recompiles only the package that it changes and those that import
// it. The row then runs only the tests that it names, and ends at the first failure.
//
// First the command sees every named test pass as the tree is. It fails if a test fails
// then, if a row no longer applies or compiles, or if no test failed for a row.
package main
