package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Stored is how many bytes the ledger's file and its write-ahead log take on the
// disk. It asks the system for the files' sizes and opens none of them.
func (l *Ledger) Stored() (bytes int64, err error) {
	for _, path := range []string{l.path, l.path + "-wal"} {
		f, err := os.Stat(path)
		switch {
		case err == nil:
			bytes += f.Size()
		case path == l.path || !errors.Is(err, fs.ErrNotExist): // a log is there only while the ledger is open
			return 0, fmt.Errorf("measure ledger: %w", err)
		}
	}
	return bytes, nil
}
