// Package quota counts what namespaces have used of their quotas, says when their next writes may be
// sent ([Terms]), and keeps the counts over restarts and power cuts ([Ledger]). It knows nothing of the
// writes themselves.
package quota
