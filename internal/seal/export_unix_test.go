//go:build unix

package seal

var PrivateTo = privateTo
