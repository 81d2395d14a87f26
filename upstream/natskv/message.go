package natskv

// The headers of a message, beside NATS' own.
const (
	headerCreated = "Botwired-Created-At" // microseconds since 1970
	headerWritten = "Botwired-Written-At" // microseconds since 1970
	headerBytes   = "Botwired-Bytes"      // the size that a listing shows
	headerHost    = "Botwired-Host"       // see upstream.Writer
	headerSeq     = "Botwired-Seq"
)
