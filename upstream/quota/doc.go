// Package quota counts what namespaces have used of their quotas, and says when their next writes may
// be sent ([Terms]). It keeps the counts over restarts and power cuts ([Ledger]), and knows nothing of
// the writes themselves.
package quota
