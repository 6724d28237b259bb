// Package transcript reads what harnesses write down of their sessions, as far
// as decklog needs it: the texts that a hook brought into the model's context.
//
// A transcript is its harness's own file. It is only ever read, never locked, and
// while it is written: its last line may be half there, a line may be megabytes
// long, and the file may be gone, shorter than it was, or another session's. Of
// what is not understood nothing is said; only what cannot be read is an error.
//
// What a person wrote, a model said, a tool gave or anybody quoted is no hook's
// text, whatever it looks like. Each harness marks what came from a hook; the
// mark is what counts.
package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	"github.com/ncruces/go-sqlite3"
)

// The bounds of one look: what is read of a file at most, from its end, and how
// long a line may be. A line that is longer is passed over.
const (
	LookBytesMax = 8 << 20
	LineBytesMax = 4 << 20
)

// Context is a text that a hook brought into a session's context.
type Context struct {
	Text   string
	Hook   string // the harness's event; empty where the transcript does not say
	Offset int64  // of the record that holds it, in bytes; in a database the number of its row
	Record string // the harness's id of that; empty: it has none
}

// Mark is up to where a transcript was read. The zero value is its beginning.
type Mark struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Head   uint64 `json:"head"` // of the file's first bytes, by which it is known again
}

// Source is a session's transcript.
type Source struct {
	Harness string // as decklog calls it
	File    string
	Session string // whose it must be
}

// Read visits what hooks brought into the session's context, from a mark on, and
// gives the mark to go on from. What it reads of a long file that it has not seen
// is its end. A file that is not there, or that somebody locks, has nothing to visit.
func (s Source) Read(from Mark, visit func(Context)) (Mark, error) {
	if from.File != s.File {
		from = Mark{File: s.File}
	}
	to, err := from, error(nil)
	switch s.Harness {
	case "claude-code":
		to, err = s.lines(from, nil, claudeCode(s.Session), visit)
	case "codex":
		to, err = s.lines(from, codexIs(s.Session), codex, visit)
	case "gemini":
		to, err = s.lines(from, geminiIs(s.Session), gemini, visit)
	case "opencode":
		to, err = s.opencode(from, visit)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, sqlite3.BUSY):
		return from, nil
	case err != nil:
		return from, fmt.Errorf("read transcript %s: %w", s.File, err)
	}
	return to, nil
}

// mark is in every line that is worth a look: it is in each frame's opening tag.
var mark = []byte("decklog-message")

// lines reads a file of lines. The first of them must be the session's, where the
// harness says in it whose the file is.
func (s Source) lines(from Mark, is func(first []byte) bool, parse func(line []byte) []Context, visit func(Context)) (Mark, error) {
	f, err := os.Open(s.File)
	if err != nil {
		return from, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return from, err
	}
	head, err := headOf(f)
	if err != nil {
		return from, err
	}
	if head != from.Head || info.Size() < from.Offset {
		from = Mark{File: s.File, Head: head} // it is another file under this name, or was begun anew
	}
	if is != nil {
		first, err := bufio.NewReaderSize(io.NewSectionReader(f, 0, LineBytesMax), 64<<10).ReadBytes('\n')
		if err != nil || !is(first) {
			return from, ignoreEnd(err)
		}
	}
	at, inside := from.Offset, false
	if info.Size()-at > LookBytesMax {
		at, inside = info.Size()-LookBytesMax, true
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return from, err
	}
	from.Offset, err = eachLine(io.LimitReader(f, LookBytesMax), at, inside, func(offset int64, line []byte) {
		if !bytes.Contains(line, mark) {
			return
		}
		for _, c := range parse(line) {
			c.Offset = offset
			visit(c)
		}
	})
	return from, err
}

func ignoreEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// headBytes are as many of a file's first bytes as it is known again by. No
// transcript's first line is shorter.
const headBytes = 64

func headOf(f io.ReaderAt) (uint64, error) {
	var b [headBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if n < headBytes {
		return 0, ignoreEnd(err)
	}
	h := fnv.New64a()
	h.Write(b[:])
	return h.Sum64(), nil
}

// eachLine visits the whole lines that begin at a place, and gives the place
// behind the last. inside says that the place may be in the middle of a line.
func eachLine(from io.Reader, at int64, inside bool, visit func(offset int64, line []byte)) (int64, error) {
	r := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	size, whole := int64(0), !inside // of the line so far; to be visited
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if whole = whole && size <= LineBytesMax; whole {
			line = append(line, part...)
		}
		switch err {
		case bufio.ErrBufferFull:
			continue
		case nil:
		case io.EOF:
			return at, nil // what is left is half a line
		default:
			return at, err
		}
		if whole {
			visit(at, line)
		}
		at += size
		line, size, whole = line[:0], 0, true
	}
}
