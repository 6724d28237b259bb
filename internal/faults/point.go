//go:build !(faults && linux)

// Package faults is how decklog is broken on purpose: the places at which a
// test may kill it, and, in its tests, the disks, clocks and crowds that it has
// to survive. README.md has the table of what was tried and what was found.
//
// In the released program all of it is empty: only a build with `-tags faults`
// looks at its environment for a fault.
package faults

// Point marks a place at which a test may kill or hold the process. It does
// nothing, and costs nothing.
func Point(string) {}

// Journal is the journal mode that a test wants, whatever the file system calls
// for; empty for that.
func Journal() string { return "" }
