// Package walk finds, in order, the keys and the namespaces that have records in a store, without a
// list of all of them: there may be a million. A walk reads one snapshot, and does not see later
// changes.
package walk
