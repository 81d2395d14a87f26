module github.com/botwired/botwired/proof/tink

go 1.26.0

require (
	github.com/botwired/botwired v0.0.0
	github.com/tink-crypto/tink-go/v2 v2.9.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/botwired/botwired => ../..
