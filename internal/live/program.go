package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// patience bounds every wait for a harness; each takes a few seconds.
const patience = 60 * time.Second

// program is a harness at work: it is told, and tells, a line of JSON at a time.
// A line of another kind is heard as {"plain": LINE}.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan map[string]any
	done  chan struct{}
	err   error // of its end; read after done
}

// start starts a program. What it prints is also kept, as LOG.out and LOG.err.
func start(ctx context.Context, dir, log string, environ []string, argv ...string) (*program, error) {
	p := &program{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), lines: make(chan map[string]any, 10_000), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.WaitDelay = dir, environ, 5*time.Second
	p.cmd.Cancel = func() error { return p.cmd.Process.Kill() }
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	printed, err := os.Create(log + ".out")
	if err != nil {
		return nil, err
	}
	complained, err := os.Create(log + ".err")
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = complained
	read, write := io.Pipe()
	p.cmd.Stdout = io.MultiWriter(printed, write)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer close(p.lines)
		lines := bufio.NewReaderSize(read, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			var said map[string]any
			if json.Unmarshal(line, &said) != nil {
				said = map[string]any{"plain": string(line)}
			}
			select {
			case p.lines <- said:
			default: // nobody has read the last ten thousand
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		p.err = p.cmd.Wait()
		write.Close()
		<-heard
		printed.Close()
		complained.Close()
		close(p.done)
	}()
	return p, nil
}

// tell says one line to the program.
func (p *program) tell(line any) error {
	b, err := json.Marshal(line)
	if err == nil {
		_, err = p.stdin.Write(append(b, '\n'))
	}
	return err
}

// hear waits for a line that fits.
func (p *program) hear(what string, fits func(map[string]any) bool) (map[string]any, error) {
	timeout := time.After(patience)
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				<-p.done
				return nil, fmt.Errorf("the program ended before %s (%v)", what, p.err)
			}
			if fits(line) {
				return line, nil
			}
		case <-timeout:
			return nil, fmt.Errorf("no %s within %s", what, patience)
		}
	}
}

// end ends the program's input and waits for its end.
func (p *program) end() error {
	_ = p.stdin.Close()
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the program did not end within %s of its input", patience)
	}
}

// at is the value at a path in what a program said; nil where there is none.
func at(value any, path ...string) any {
	for _, name := range path {
		fields, is := value.(map[string]any)
		if !is {
			return nil
		}
		value = fields[name]
	}
	return value
}
