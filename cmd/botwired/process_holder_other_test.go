//go:build !linux && !darwin

package main

import "errors"

func lockHolder(string) (int, error) { return 0, errors.ErrUnsupported }
