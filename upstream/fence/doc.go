// Package fence decides whether a write may take the place of what upstream holds of its entry: one
// [Question], one judge, for all engines. [Offset] estimates how far upstream's clock is ahead, for
// engines that tell of a version only its time. The package makes no requests.
package fence
