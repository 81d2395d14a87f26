// Package api has the documents of the daemon's own surface, /_botwired/, and a client for them.
//
// The daemon answers with these types, botwired's own commands read them, and openapi.yaml
// describes them: see docs/http.md. A program that reads them has to bear fields that it does not
// know. Times are UTC and exact to the millisecond, unless a field says that it is Unix seconds.
package api
