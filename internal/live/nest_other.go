//go:build !linux

package main

// endAll has no way here to find what a harness left behind.
func endAll() []string { return nil }
