// Package term writes for the person at a terminal: tables, facts and times as people say them, screens that are
// drawn anew, and questions. For another reader it writes plain text, with times as in JSON.
package term
