package process

import (
	"path"
	"slices"
	"strings"
)

// runs says whether a process is the program, by its command line, the name that
// it has, or the file that it was started from.
func runs(program, comm string, args []string, exe string) bool {
	if len(args) > 0 {
		called := nameOf(args[0])
		switch {
		case called == program:
			return true
		case strings.HasPrefix(called, program+"-"):
			return false // a helper that is the same file under another name, such as a sandbox
		case interprets(called) && nameOf(script(args[1:])) == program:
			return true
		}
	}
	return comm == program || nameOf(exe) == program
}

// nameOf is the name of the program in a file: the file's, without what systems
// and packagers put around it. Where a folder keeps the versions of one program
// as PROGRAM/versions/1.2.3, it is PROGRAM.
func nameOf(file string) string {
	file = strings.TrimSuffix(file, " (deleted)") // the kernel's word for one that was replaced by an update
	if dir := path.Dir(file); path.Base(dir) == "versions" {
		return path.Base(path.Dir(dir))
	}
	name := strings.TrimPrefix(path.Base(file), ".")
	for _, ending := range []string{".exe", ".js", ".mjs", ".cjs"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// interprets says whether a program only runs a script.
func interprets(program string) bool {
	return slices.Contains([]string{"node", "nodejs", "bun", "deno"}, program)
}

// script finds the script among an interpreter's arguments; empty when there is none.
func script(args []string) string {
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions":
			i++ // its value is the next argument
		case "run":
		default:
			if !strings.HasPrefix(args[i], "-") {
				return args[i]
			}
		}
	}
	return ""
}
