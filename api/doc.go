// Package api has the documents of the daemon's own HTTP API, /_botwired/, and a client for them.
//
// The daemon answers with these types, botwired's commands read them, and openapi.yaml describes them:
// see docs/http.md. A program that reads them must ignore unknown fields. Times are UTC with
// milliseconds, unless a field says that it is in Unix seconds.
package api
