//go:build !linux

package main

import "testing"

// accountTests needs processes of other accounts.
var accountTests map[string]func(*testing.T, string)
