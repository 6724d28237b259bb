//go:build !unix

package classifier

import "os/exec"

// together does nothing where there are no process groups: only the classifier
// itself ends.
func together(*exec.Cmd) {}
