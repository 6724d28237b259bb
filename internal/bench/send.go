//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/clock"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

func sendOnce() row {
	return row{
		name:  "send",
		lines: []line{{"decklog send, durable", "one fdatasync of 4 KiB", seconds, atMost(3.5)}},
		begin: func(b *bench) (round, error) {
			s, err := b.stage("send")
			if err != nil {
				return nil, err
			}
			p := s.run("queued", "decklog", "send", "--as", alice, "--to", bob, "--", text)
			return beside(p, p.reference(b, "sync1", filepath.Join(s.dir, "sync1")), nil, func() error { return s.drain(bob) }), nil
		},
	}
}

// crowd is a ledger in this process, and sessions that send to each other in
// turn, so that nobody has much on the way at once.
type crowd struct {
	ledger   *sqlite.Ledger
	ops      *ops.Ops
	sessions []string
	n        int
}

func openCrowd(path string, size int, more ...sqlite.Option) (*crowd, error) {
	ledger, err := sqlite.Open(path, projections.Project, more...)
	if err != nil {
		return nil, err
	}
	c := &crowd{ledger: ledger, ops: operations(ledger, clock.Now)}
	for i := range size {
		c.sessions = append(c.sessions, fmt.Sprintf("session-%03d", i))
	}
	return c, nil
}

func (c *crowd) join() error {
	for _, s := range c.sessions {
		if err := c.joins(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) joins(session string) error {
	_, refused, err := c.ops.Join(ops.JoinRequest{Session: session, Harness: "claude-code", Source: events.SourceManual, Cwd: "/home/ana/shop"})
	return settled(refused, err)
}

func (c *crowd) send() error {
	from, to := c.sessions[c.n%len(c.sessions)], c.sessions[(c.n+1)%len(c.sessions)]
	c.n++
	_, refused, err := c.ops.Send(ops.SendRequest{Asker: ops.Asker{As: from}, To: to, Intent: "inform", Body: []byte(text)})
	return settled(refused, err)
}

func (c *crowd) drain() error {
	for _, s := range c.sessions {
		if err := drain(c.ops, s); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf is what an event and its body hold, on average over the last few.
func (c *crowd) bytesOf(last int) (n int, err error) {
	err = c.ledger.View(func(r events.Reader) error {
		end, err := r.End()
		if err != nil {
			return err
		}
		found, err := r.All(end-events.Position(last)+1, last)
		for _, e := range found {
			body, _, err := r.Body(e.ID)
			if err != nil {
				return err
			}
			n += len(e.Data) + len(e.Stream) + len(e.ID) + len(e.Cause.Command) + len(e.Digest) + len(body.Text) + len(body.Salt) + len(body.Fingerprint)
		}
		return err
	})
	return n / last, err
}

const appends = 400 // in a round

func appendLoop() row {
	return row{
		name:  "append",
		lines: []line{{"append, one writer, views included", "raw write + fdatasync", perSecond, atLeast(0.7)}},
		begin: func(b *bench) (round, error) {
			c, err := openCrowd(filepath.Join(b.folder, "append", "ledger.db"), 100)
			if err != nil {
				return nil, err
			}
			raw, err := os.Create(filepath.Join(b.folder, "append", "raw"))
			if err == nil {
				err = c.join()
			}
			if err != nil {
				return nil, err
			}
			return func() ([]sample, error) {
				// The two take turns, a twentieth of the round at a time.
				var took [2]time.Duration
				size := 0
				const turns = 20
				for range turns {
					began := time.Now()
					for range appends / turns {
						if err := c.send(); err != nil {
							return nil, err
						}
					}
					took[0] += time.Since(began)
					if size, err = c.bytesOf(appends / turns); err != nil {
						return nil, err
					}
					record := make([]byte, size)
					began = time.Now()
					for range appends / turns {
						if _, err := raw.Write(record); err != nil {
							return nil, err
						}
						if err := unix.Fdatasync(int(raw.Fd())); err != nil {
							return nil, err
						}
					}
					took[1] += time.Since(began)
				}
				b.say("  %d bytes for an event with its body", size)
				return []sample{{measured: appends / took[0].Seconds(), reference: appends / took[1].Seconds()}}, c.drain()
			}, nil
		},
	}
}

// together is how many processes send at once, and sendsEach how often each does.
const (
	together  = 16
	sendsEach = 40
)

func sendTogether() row {
	return row{
		name: "together",
		lines: []line{
			{fmt.Sprintf("%d processes sending at once: slowest", together), "their median", seconds, atMost(2)},
			{fmt.Sprintf("%d processes sending at once, none fails", together), "one sending as often", perSecond, goal{}},
		},
		begin: func(b *bench) (round, error) {
			path := filepath.Join(b.folder, "together", "ledger.db")
			c, err := openCrowd(path, 100)
			if err == nil {
				err = c.join()
			}
			if err == nil {
				err = c.ledger.Close()
			}
			if err != nil {
				return nil, err
			}
			return func() ([]sample, error) {
				many, took, err := b.senders(path, together, sendsEach)
				if err != nil {
					return nil, err
				}
				_, alone, err := b.senders(path, 1, together*sendsEach)
				if err != nil {
					return nil, err
				}
				all := float64(together * sendsEach)
				return []sample{
					{measured: slices.Max(many), reference: median(many)},
					{measured: all / took, reference: all / alone},
				}, b.redrain(path)
			}, nil
		},
	}
}

func (b *bench) redrain(path string) error {
	c, err := openCrowd(path, 100)
	if err != nil {
		return err
	}
	return errors.Join(c.drain(), c.ledger.Close())
}

// senders starts processes that each send so many messages, all at one moment,
// and gives how long each took, and all of them.
func (b *bench) senders(path string, processes, sends int) (each []float64, all float64, err error) {
	type sender struct {
		cmd *exec.Cmd
		go_ io.WriteCloser
		out *bufio.Reader
	}
	var senders []sender
	for i := range processes {
		cmd, err := b.child("send "+strconv.Itoa(sends)+" "+strconv.Itoa(i), path)
		if err != nil {
			return nil, 0, err
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, 0, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, 0, err
		}
		if err := cmd.Start(); err != nil {
			return nil, 0, err
		}
		s := sender{cmd, in, bufio.NewReader(out)}
		if _, err := s.out.ReadString('\n'); err != nil { // it is ready
			return nil, 0, fmt.Errorf("a sender: %w", err)
		}
		senders = append(senders, s)
	}
	began := time.Now()
	for _, s := range senders {
		s.go_.Close()
	}
	for _, s := range senders {
		var told childTold
		err := json.NewDecoder(s.out).Decode(&told)
		if waited := s.cmd.Wait(); err == nil {
			err = waited
		}
		if err != nil {
			return nil, 0, fmt.Errorf("a sender: %w", err)
		}
		each = append(each, told.Seconds)
	}
	return each, time.Since(began).Seconds(), nil
}
