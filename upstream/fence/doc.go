// Package fence decides whether a write may replace the state that upstream holds of its entry. A
// [Question] holds the facts for any engine, and its Judge decides. [Ahead] says how far upstream's clock
// is ahead where it matters, for engines that return only the time of a version. The package makes no
// requests.
package fence
