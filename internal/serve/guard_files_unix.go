//go:build unix

package serve

import "syscall"

// filesKept are for everything but connections: the ledger, its readers, logs.
const filesKept = 256

// filesFree is for how many connections the process may have files open.
func filesFree() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return filesKept
	}
	const most = 1 << 20
	return max(int(min(uint64(l.Cur), most))-filesKept, 64)
}
