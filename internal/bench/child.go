//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// childTold is what a process of this program's own tells on its last line.
type childTold struct {
	Seconds float64 `json:"seconds"`
	Count   int     `json:"count"`
	PeakMB  float64 `json:"peak_mb"` // the most memory that it ever had resident
}

// child is this program once more, for one piece of work, so that its memory
// can be measured, or that it is one of several.
func (b *bench) child(work, ledger string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-child", work, "-ledger", ledger, "-profile", b.profile)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// work runs a child to its end.
func (b *bench) work(work, ledger string) (told childTold, err error) {
	cmd, err := b.child(work, ledger)
	if err != nil {
		return told, err
	}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &told)
	}
	if err != nil {
		return told, fmt.Errorf("%s: %w", work, err)
	}
	return told, nil
}

func runChild(work, path, profile string) error {
	words := strings.Fields(work)
	end, err := profiled(profile, "child-"+words[0])
	if words[0] == "send" {
		end, err = func() {}, nil
	}
	if err != nil {
		return err
	}
	var told childTold
	began := time.Now()
	switch words[0] {
	case "send":
		told.Count, began, err = childSend(words, path)
	case "scan":
		told.Count, err = childScan(path)
	case "fold":
		told.Count, err = childFold(path)
	case "rebuild":
		told.Count, err = childRebuild(path)
	default:
		err = fmt.Errorf("no such work: %q", work)
	}
	if err != nil {
		return err
	}
	told.Seconds = time.Since(began).Seconds()
	end()
	told.PeakMB, err = peakMB()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

// childSend sends, once its standard input was closed.
func childSend(words []string, path string) (sent int, began time.Time, err error) {
	var offset int
	if _, err := fmt.Sscan(words[1], &sent); err != nil {
		return 0, began, err
	}
	if _, err := fmt.Sscan(words[2], &offset); err != nil {
		return 0, began, err
	}
	c, err := openCrowd(path, 100)
	if err != nil {
		return 0, began, err
	}
	c.n = 6 * offset
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 0, began, err
	}
	began = time.Now()
	for range sent {
		if err := c.send(); err != nil {
			return 0, began, err
		}
	}
	return sent, began, c.ledger.Close()
}

const page = 1000 // events that a scan takes at a time, as the operations do

// childScan reads every column of every event by the driver alone, in pages, and
// makes nothing of them.
func childScan(path string) (n int, err error) {
	db, err := sqlite3.OpenFlags("file:"+path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	s, _, err := db.Prepare(`SELECT position, stream, revision, id, type, version, time, actor, command, caused_by, policy, data, digest
		FROM events WHERE position >= ? ORDER BY position LIMIT ?`)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	var last, bytes int64
	for {
		before := n
		if err := s.BindInt64(1, last+1); err != nil {
			return 0, err
		}
		if err := s.BindInt64(2, page); err != nil {
			return 0, err
		}
		for s.Step() {
			n++
			last = s.ColumnInt64(0)
			for _, column := range []int{2, 5, 6, 10} {
				bytes += s.ColumnInt64(column)
			}
			for _, column := range []int{1, 3, 4, 7, 8, 9, 11, 12} {
				bytes += int64(len(s.ColumnRawBlob(column)))
			}
		}
		if err := s.Err(); err != nil {
			return 0, err
		}
		if err := s.Reset(); err != nil {
			return 0, err
		}
		if n == before {
			return n, nil
		}
	}
}

// childFold makes the views of the last moment in memory, as `owed --at` does.
func childFold(path string) (n int, err error) {
	ledger, err := sqlite.Open(path, projections.Project)
	if err != nil {
		return 0, err
	}
	var end events.Position
	if err := ledger.View(func(r events.Reader) error { end, err = r.End(); return err }); err != nil {
		return 0, err
	}
	view, refused, err := operations(ledger, func() events.Time { return 0 }).Owed(ops.OwedRequest{At: strconv.FormatInt(int64(end), 10)})
	if err := settled(refused, err); err != nil {
		return 0, err
	}
	if len(view.Items) == 0 {
		return 0, errNothing
	}
	return int(end), ledger.Close()
}

func childRebuild(path string) (n int, err error) {
	ledger, err := sqlite.Open(path, projections.Project)
	if err != nil {
		return 0, err
	}
	built, err := operations(ledger, func() events.Time { return 0 }).Rebuild()
	if err != nil {
		return 0, err
	}
	return int(built.Position), ledger.Close()
}

// peakMB is the most memory that this process ever had resident.
func peakMB() (float64, error) { return peakOf(os.Getpid()) }

// peakOf is the same of another process.
func peakOf(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(status)) {
		var kb float64
		if _, err := fmt.Sscanf(l, "VmHWM: %f kB", &kb); err == nil {
			return kb / 1024, nil
		}
	}
	return 0, errNothing
}
