// Package term writes for people at a terminal: tables, facts, relative times, screens that are
// redrawn, and questions. For other readers it writes plain text, with times as in JSON.
package term
