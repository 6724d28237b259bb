//go:build !unix || aix || solaris

package notes

import "os"

// tryLock knows no lock here. Two processes that find the file full in the same
// moment may lose the older faults.
func tryLock(*os.File) bool { return true }
