// Package quota counts how much of their quotas namespaces have used, and decides when their next
// writes may be sent ([Terms]). It keeps the counts over restarts and power cuts ([Ledger]), and knows
// nothing of the writes themselves.
package quota
