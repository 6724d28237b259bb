package doctor

import (
	"bytes"
	"os"
	"path/filepath"
)

// programs looks whether the programs are found, each by whoever needs it, and
// are of one build.
func (x *examination) programs() (p part) {
	const about = "programs"
	for _, name := range []string{"decklog", "decklog-hook"} {
		file := lookPath(name, x.Environ("PATH"))
		if file == "" {
			p.say(about, name, Fault, "put its folder on the PATH that your harnesses are started with", "it is not on PATH, where harnesses look for it")
			continue
		}
		p = append(p, x.sameBuild(name, file))
	}
	file := beside("decklogd")
	if file == "" {
		file = lookPath("decklogd", x.Environ("PATH"))
	}
	if file == "" {
		p.say(about, "decklogd", Fault, "put it beside decklog, or on PATH", "it is not found: there is no MCP server without it")
		return p
	}
	return append(p, x.sameBuild("decklogd", file))
}

// beside is a program in this one's folder; empty when it is not there.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	file := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return file
}

// sameBuild compares a program with this one, by what the compiler wrote into it.
func (x *examination) sameBuild(name, file string) Line {
	l := Line{About: "programs", Check: name, Level: OK, Says: file}
	commit, known := commitOf(file)
	if known && commit != x.Commit {
		l.Level, l.Fix = Warning, "install all three programs of one build"
		l.Says = file + " was built from " + orNone(commit) + ", and this decklog from " + orNone(x.Commit)
	}
	return l
}

func orNone(commit string) string {
	if commit == "" {
		return "an unknown commit"
	}
	return "commit " + commit
}

// commitOf is the commit that a program was built from; false when it does not
// say. The compiler writes it into the file as text; the library that reads it
// properly costs every short command a tenth of a millisecond.
func commitOf(file string) (string, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	for {
		_, after, found := bytes.Cut(text, []byte("\tvcs.revision="))
		if !found {
			return "", false
		}
		if commit, _, ends := bytes.Cut(after[:min(len(after), 65)], []byte("\n")); ends && isHex(commit) {
			return string(commit), true
		}
		text = after
	}
}

func isHex(text []byte) bool {
	return len(text) >= 40 && len(bytes.Trim(text, "0123456789abcdef")) == 0
}
