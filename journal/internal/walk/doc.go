// Package walk finds the keys and the namespaces of which a store has records, in order, without a
// list of all of them: there may be a million. A walk reads one snapshot, and does not know what
// became of an entry since.
package walk
