// Package walk finds, in order, the keys and the namespaces that have records in a store. It builds no
// list of them, because there may be a million. A walk reads one snapshot, and does not see later
// changes.
package walk
