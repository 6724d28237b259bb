// Package workdir tells which repository and branch a directory belongs to, by
// the files that git keeps there. It runs nothing, and knows nothing of decklog.
package workdir

import (
	"os"
	"path/filepath"
	"strings"
)

// Place is where somebody works.
type Place struct {
	Dir    string // symbolic links resolved, so that one directory has one name
	Repo   string // the root of the main checkout, also from a worktree; empty outside of one
	Branch string // or the commit's id where none is checked out; empty when there is none
}

// Of tells the place of a directory. What cannot be read is left empty.
func Of(dir string) Place {
	p := Place{Dir: real(dir)}
	for at := p.Dir; ; at = filepath.Dir(at) {
		git := filepath.Join(at, ".git")
		if info, err := os.Stat(git); err == nil {
			if !info.IsDir() {
				git = linked(at, git)
			}
			p.Branch = head(git)
			p.Repo = at
			if common := line(filepath.Join(git, "commondir")); common != "" {
				p.Repo = real(filepath.Dir(under(git, common)))
			}
			return p
		}
		if at == filepath.Dir(at) {
			return p
		}
	}
}

func real(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved
	}
	return filepath.Clean(dir)
}

// linked follows the file that a worktree or a submodule has in place of a folder.
func linked(at, file string) string {
	to, is := strings.CutPrefix(line(file), "gitdir: ")
	if !is {
		return file
	}
	return under(at, to)
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func head(git string) string {
	ref := line(filepath.Join(git, "HEAD"))
	if branch, is := strings.CutPrefix(ref, "ref: refs/heads/"); is {
		return branch
	}
	return ref
}

// line is a file's first line, of its first 4 KiB; empty when it cannot be read.
func line(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := f.Read(b)
	text, _, _ := strings.Cut(string(b[:n]), "\n")
	return strings.TrimSpace(text)
}

// Root is the root of the checkout that a directory lies in; empty outside of one.
func Root(dir string) string {
	for at := real(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}
