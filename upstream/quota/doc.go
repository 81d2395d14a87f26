// Package quota counts what namespaces have used of their quotas, says when their next writes may go
// ([Terms]), and keeps the counts over restarts and power cuts ([Ledger]). It knows nothing of the
// writes themselves.
package quota
