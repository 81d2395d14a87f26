//go:build !unix

package main

// withUmask runs f: there is no umask here.
func withUmask(_ int, f func()) { f() }
