// Package tink holds internal/seal to another implementation: Tink opens what it seals by the format of its
// package doc, and it opens what Tink seals. The module is one of its own, so that the product's graph has
// no Tink.
package tink
