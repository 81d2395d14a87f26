// Package fence decides whether a write may replace the state that upstream holds of its entry. A
// [Question] holds the facts for any engine, and its Judge decides. [Offset] estimates how far
// upstream's clock is ahead, for engines that return only the time of a version. The package makes no
// requests.
package fence
