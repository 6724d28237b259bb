//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// spawns is how often a round starts each of the two programs.
const spawns = 20

// build builds the programs and the references, once, as `make build` does.
func (b *bench) build() error {
	if b.built {
		return nil
	}
	bin := filepath.Join(b.folder, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin+"/", "decklog/cmd/...", "decklog/internal/bench/ref/...", "decklog/internal/esdbdouble/cmd/double")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	files, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := install(filepath.Join(bin, f.Name())); err != nil {
			return err
		}
	}
	b.built = true
	return nil
}

// install copies a program, measured or reference, over itself, as installing it
// does: the pages of a file that the linker has just written are small ones, and
// a program starts slower from them than from a copy.
func install(file string) error {
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	copied := file + ".copy"
	if err := os.WriteFile(copied, program, 0o700); err != nil {
		return err
	}
	return os.Rename(copied, file)
}

func (b *bench) program(name string) string { return filepath.Join(b.folder, "bin", name) }

// process is a program to be started again and again. Its input lies in a pipe
// when it starts, and its output goes to a file, so that starting it and waiting
// for it is all that is timed.
type process struct {
	args  []string
	env   []string
	dir   string
	stdin []byte
	// says is what its output must hold; empty: it must have none, "*": any.
	says string
}

// pipeBytesMax is what a pipe holds without a reader.
const pipeBytesMax = 60_000

func (p process) time() (took time.Duration, err error) {
	if len(p.stdin) > pipeBytesMax {
		return 0, errors.New("the input does not fit into a pipe")
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	_, err = feed.Write(p.stdin)
	if err := errors.Join(err, feed.Close()); err != nil {
		return 0, err
	}
	out, err := os.Create(filepath.Join(p.dir, "stdout"))
	if err != nil {
		return 0, err
	}
	defer out.Close()
	errs, err := os.Create(filepath.Join(p.dir, "stderr"))
	if err != nil {
		return 0, err
	}
	defer errs.Close()

	began := time.Now()
	started, err := os.StartProcess(p.args[0], p.args, &os.ProcAttr{Dir: p.dir, Env: p.env, Files: []*os.File{in, out, errs}})
	if err != nil {
		return 0, err
	}
	state, err := started.Wait()
	took = time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, p.check(state, out, errs)
}

func (p process) check(state *os.ProcessState, out, errs *os.File) error {
	printed, err := slurp(out)
	if err != nil {
		return err
	}
	complained, err := slurp(errs)
	if err != nil {
		return err
	}
	wrong := p.says == "" && len(printed) > 0 || p.says != "" && p.says != "*" && !bytes.Contains(printed, []byte(p.says))
	if !state.Success() || wrong || len(complained) > 0 {
		return fmt.Errorf("%s: %s, printed %q, and %q", strings.Join(p.args, " "), state, printed, complained)
	}
	return nil
}

func slurp(f *os.File) ([]byte, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// beside gives the round in which two programs take turns. before, if it is
// there, is done before each start of the measured one, and is not timed; after
// ends each round.
func beside(measured, reference process, before, after func() error) round {
	return func() ([]sample, error) {
		var times [2][]float64
		for range spawns {
			for i, p := range []process{measured, reference} {
				if i == 0 && before != nil {
					if err := before(); err != nil {
						return nil, err
					}
				}
				took, err := p.time()
				if err != nil {
					return nil, err
				}
				times[i] = append(times[i], took.Seconds())
			}
		}
		if after != nil {
			if err := after(); err != nil {
				return nil, err
			}
		}
		return []sample{{measured: median(times[0]), reference: median(times[1])}}, nil
	}
}
