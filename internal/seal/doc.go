// Package seal makes a memory unreadable and unforgeable for everybody without its key file: the names of
// namespaces and keys, and the values. It knows no engine, no journal and no HTTP.
//
// # Key file
//
// A text file: blank lines, comments that begin with #, and one key a line.
//
//	name KEY   hides the names of namespaces and keys; exactly one, and it never changes
//	seal KEY   seals new values, and opens those that it has sealed; exactly one
//	open KEY   opens values that it has sealed once; any number
//
// KEY is base64url of 32 random bytes and of the first 4 of their SHA-256, which tells a cut line. Each
// key has an ID, the first 8 bytes of HMAC-SHA256(key, "botwired seal id").
//
// # Subkeys
//
// Each purpose has a key of its own in each namespace: HKDF-SHA256 of the name, seal or open key, without
// salt, with the info "botwired seal 1 " ‖ purpose ‖ 0 ‖ namespace.
//
// # Names
//
// A namespace is hidden as "s1-" ‖ base64url(HMAC-SHA256(subkey of the name key, namespace)). A key of up to
// 80 characters is filled with zeros to a multiple of 16 bytes and encrypted deterministically: base64url of
// 16 bytes of HMAC-SHA256 over the filled key, which are the initial counter, and of AES-256-CTR.
//
// # Values
//
//	bw1.base64url(key ID 8 ‖ nonce 24 ‖ XAES-256-GCM of the content)
//
// The additional data are "bw1.", the key ID, the namespace and the key, each behind its length in 2 bytes.
// The content, with all numbers big endian:
//
//	1  format: 1 for a value as it is, 2 for one compressed by DEFLATE
//	8  time of the write, in microseconds since 1970
//	8  number of the write
//	1  length of the host's name, then the name
//	2  length of the author's name, then the name
//	4  length of the value
//	4  length of what follows, which is the value or its compressed form
//	   zeros, by the Padmé rule: the length then tells only log log of itself. They end where the sealed
//	   form reaches [Limit].
//
// "bw1." stays as long as the key ID comes first. A later format has another number inside.
//
// A nonce is the first 24 bytes of HMAC-SHA256 over 32 random bytes, the host, the number, and a hash of
// additional data and content: a cloned machine that repeats its random bytes repeats no nonce for another
// content.
package seal
