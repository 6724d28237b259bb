//go:build !linux

package main

import (
	"context"
	"time"
)

// terminal is not made here.
type terminal struct{}

func startInTerminal(context.Context, string, string, []string, ...string) (*terminal, error) {
	return nil, undriven("a terminal is only made on Linux")
}

func (t *terminal) now() int                                        { return 0 }
func (t *terminal) screen() string                                  { return "" }
func (t *terminal) keys(string) error                               { return nil }
func (t *terminal) look(string, int, func(shown string) bool) error { return nil }

func (t *terminal) lookFor(time.Duration, string, int, func(shown string) bool) error { return nil }
func (t *terminal) gone() error                                                       { return nil }
