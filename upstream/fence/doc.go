// Package fence decides whether a write may take the place of what upstream holds of its entry: one
// [Question], one judge, for all engines. It makes no requests and keeps nothing.
package fence
