//go:build !linux

package process

import (
	"errors"
	"time"

	"decklog/events"
)

// Alive says whether this very process runs on this machine. No process is ever
// recorded on this system, so it is of another machine, and does not.
func Alive(events.Process) bool { return false }

// Age counts from the start of Go's part of this process.
func Age() time.Duration { return time.Since(began) }

func bootID() string { return "" }

func space() uint64 { return 0 }

func readStat(int) (stat, error) { return stat{}, errors.ErrUnsupported }
func readArgs(int) []string      { return nil }
func readExe(int) string         { return "" }
