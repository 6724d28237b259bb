//go:build linux

package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"decklog/internal/api"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/internal/token"
)

// server is a `decklogd serve` on a ledger, as a process of its own, and who may
// ask it for anything.
type server struct {
	cmd    *exec.Cmd
	socket string
	token  string
}

// crowded makes a ledger on which so many sessions have joined, and have had their
// instruction, so that nothing waits for any.
func (b *bench) crowded(name string, size int) (path string, c *crowd, err error) {
	path = filepath.Join(b.folder, name, "ledger.db")
	if c, err = openTogether(path, size); err != nil {
		return "", nil, err
	}
	if err := c.each(func(session string) error {
		if err := c.joins(session); err != nil {
			return err
		}
		return drain(c.ops, session)
	}); err != nil {
		return "", nil, err
	}
	return path, c, c.ledger.Close()
}

// openTogether opens a crowd's ledger for many goroutines at once.
func openTogether(path string, size int, more ...sqlite.Option) (*crowd, error) {
	c, err := openCrowd(path, size, append(more, sqlite.Grouped(sqlite.DefaultGroups))...)
	if err == nil {
		c.ops.World.Random = func(b []byte) { _, _ = rand.Read(b) }
	}
	return c, err
}

// each does something for each session, for many at once.
func (c *crowd) each(do func(session string) error) error {
	const atOnce = 64
	failures := make([]error, atOnce)
	var all sync.WaitGroup
	for n := range atOnce {
		all.Go(func() {
			for i := n; i < len(c.sessions) && failures[n] == nil; i += atOnce {
				failures[n] = do(c.sessions[i])
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// serve starts a server, and waits until it listens.
func (b *bench) serve(path string) (*server, error) {
	if err := b.build(); err != nil {
		return nil, err
	}
	s := &server{socket: filepath.Join(filepath.Dir(path), "s")}
	s.cmd = exec.Command(b.program("decklogd"), "serve", "--ledger", "sqlite:"+path, "--socket", s.socket, "--listen", "127.0.0.1:0", "--json", "--quiet")
	s.cmd.Env = []string{"HOME=" + filepath.Dir(path), "PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	s.cmd.Dir = filepath.Dir(path)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	said, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil && !bytes.Contains(said, []byte(`"serving"`)) {
		err = fmt.Errorf("serve says %q", said)
	}
	if err == nil {
		s.token, err = token.OfMachine(filepath.Dir(path))
	}
	if err != nil {
		_ = s.cmd.Process.Kill()
		return nil, errors.Join(err, s.cmd.Wait())
	}
	return s, nil
}

// stop ends the server as a service manager does.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// residentMB is the most memory that the server ever had resident.
func (s *server) residentMB() (float64, error) { return peakOf(s.cmd.Process.Pid) }

// caller is one connection to a server, which is kept. It does no more than it has
// to: the server is to be measured, on the cores that both share.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	of   *server
	out  bytes.Buffer
	body []byte
}

func (s *server) dial() (*caller, error) {
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, 2048), of: s}, nil
}

// send sends a request.
func (c *caller) send(method, target string, body []byte, accept string) error {
	c.out.Reset()
	fmt.Fprintf(&c.out, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n", method, target, c.of.token, accept)
	if body != nil {
		fmt.Fprintf(&c.out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	c.out.WriteString("\r\n")
	c.out.Write(body)
	_, err := c.conn.Write(c.out.Bytes())
	return err
}

// header reads the head of an answer, and gives how long its body is; -1: in chunks.
func (c *caller) header() (length int, err error) {
	status := ""
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		text := bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(text, []byte(": "))
		switch {
		case len(text) == 0:
			if status != "200" && status != "201" {
				rest, _ := c.rest(length)
				return 0, fmt.Errorf("the server answers %s: %s", status, rest)
			}
			return length, nil
		case status == "":
			if len(text) < 12 {
				return 0, fmt.Errorf("no answer of HTTP: %q", text)
			}
			status = string(text[9:12])
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1
		}
	}
}

// rest reads a body to its end.
func (c *caller) rest(length int) ([]byte, error) {
	c.body = c.body[:0]
	if length >= 0 {
		c.body = slices.Grow(c.body, length)[:length]
		_, err := io.ReadFull(c.in, c.body)
		return c.body, err
	}
	for {
		chunk, err := c.chunk()
		if err != nil || len(chunk) == 0 {
			return c.body, err
		}
		c.body = append(c.body, chunk...)
	}
}

// chunk reads the next part of a body in chunks; an empty one is its end.
func (c *caller) chunk() ([]byte, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
	if err != nil {
		return nil, err
	}
	chunk := make([]byte, n+2)
	_, err = io.ReadFull(c.in, chunk)
	return chunk[:n], err
}

// ask sends a request and gives the body of the answer, until the next one.
func (c *caller) ask(method, target string, body []byte) ([]byte, error) {
	if err := c.send(method, target, body, "application/json"); err != nil {
		return nil, err
	}
	length, err := c.header()
	if err != nil {
		return nil, err
	}
	return c.rest(length)
}

// call asks for an operation.
func (c *caller) call(r *api.Route, q any) ([]byte, error) {
	target, body, err := r.Write(q)
	if err != nil {
		return nil, err
	}
	return c.ask(r.Method, target, body)
}

func messageTo(from, to string) ops.SendRequest {
	return ops.SendRequest{Asker: ops.Asker{As: from}, To: to, Intent: "inform", Body: []byte(text)}
}

// clients send at once, each over a connection of its own, and each as often.
func (s *server) clients(sessions []string, clients, each int) (took time.Duration, latencies []float64, err error) {
	failures, times := make([]error, clients), make([][]float64, clients)
	ready, barrier := sync.WaitGroup{}, make(chan struct{})
	var all sync.WaitGroup
	for n := range clients {
		ready.Add(1)
		all.Go(func() {
			c, err := s.dial()
			var requests [][]byte
			var target string
			for i := 0; i < each && err == nil; i++ {
				at := i*clients + n
				var body []byte
				target, body, err = api.Send.Write(messageTo(sessions[at%len(sessions)], sessions[(at+1)%len(sessions)]))
				requests = append(requests, body)
			}
			ready.Done()
			<-barrier
			for _, body := range requests {
				if err != nil {
					break
				}
				began := time.Now()
				_, err = c.ask("POST", target, body)
				times[n] = append(times[n], time.Since(began).Seconds())
			}
			if c != nil {
				err = errors.Join(err, c.conn.Close())
			}
			failures[n] = err
		})
	}
	ready.Wait()
	began := time.Now()
	close(barrier)
	all.Wait()
	return time.Since(began), slices.Concat(times...), errors.Join(failures...)
}

// percentile is the value below which so many of a hundred lie.
func percentile(of []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// syncs gives how long writes of 4 KiB and their fdatasync took.
func syncs(path string, count int) (took []float64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page := make([]byte, 4096)
	for range count {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	return took, nil
}

func appendServed() row {
	return row{
		name: "serve",
		lines: []line{
			{"append through serve, 16 clients", "one writer alone", perSecond, atLeast(5)},
			{"append through serve, 64 clients", "one writer alone", perSecond, atLeast(8)},
			{"append through serve, one client", "one writer alone", perSecond, goal{}},
			{"send through serve, 16 clients: p99", "one fdatasync of 4 KiB", seconds, atMost(30)},
		},
		begin: func(b *bench) (round, error) {
			const sessions = 1000
			path, many, err := b.crowded("serve", sessions)
			if err != nil {
				return nil, err
			}
			alone, err := openCrowd(filepath.Join(b.folder, "serve-alone", "ledger.db"), 100)
			if err == nil {
				err = alone.join()
			}
			if err != nil {
				return nil, err
			}
			return func() ([]sample, error) {
				s, err := b.serve(path)
				if err != nil {
					return nil, err
				}
				// All take turns, a part of the round at a time.
				var took [4]time.Duration
				var sent [4]int
				var latencies, sync []float64
				const turns = 5
				for range turns {
					for i, clients := range []int{16, 64, 1} {
						each := []int{100, 50, 60}[i]
						t, times, err := s.clients(many.sessions, clients, each)
						if err != nil {
							return nil, errors.Join(err, s.stop())
						}
						took[i] += t
						sent[i] += clients * each
						if i == 0 {
							latencies = append(latencies, times...)
						}
					}
					began := time.Now()
					for range 60 {
						if err := alone.send(); err != nil {
							return nil, errors.Join(err, s.stop())
						}
						sent[3]++
					}
					took[3] += time.Since(began)
					times, err := syncs(filepath.Join(filepath.Dir(path), "raw"), 60)
					if err != nil {
						return nil, errors.Join(err, s.stop())
					}
					sync = append(sync, times...)
				}
				if err := s.stop(); err != nil {
					return nil, err
				}
				if err := errors.Join(b.drained(path, many.sessions), alone.drain()); err != nil {
					return nil, err
				}
				rate := func(i int) float64 { return float64(sent[i]) / took[i].Seconds() }
				return []sample{
					{measured: rate(0), reference: rate(3)},
					{measured: rate(1), reference: rate(3)},
					{measured: rate(2), reference: rate(3)},
					{measured: percentile(latencies, 99), reference: median(sync)},
				}, nil
			}, nil
		},
	}
}

// drained delivers all that waits for these sessions.
func (b *bench) drained(path string, sessions []string) error {
	c, err := openTogether(path, len(sessions))
	if err != nil {
		return err
	}
	return errors.Join(c.each(func(session string) error { return drain(c.ops, session) }), c.ledger.Close())
}

// wakings is how often a round wakes each waiter.
const wakings = 100

func waking() row {
	return row{
		name: "wake",
		lines: []line{
			{"wake-up of wait after a commit: p99", "one round trip on the same socket", seconds, atMost(20)},
			{"wake-up of server-sent events after a commit: p99", "one round trip on the same socket", seconds, atMost(20)},
			{"mail offered by wait, which commits that itself: p99", "one round trip on the same socket", seconds, goal{}},
		},
		begin: func(b *bench) (round, error) {
			path, c, err := b.crowded("wake", 100)
			if err != nil {
				return nil, err
			}
			return func() ([]sample, error) {
				s, err := b.serve(path)
				if err != nil {
					return nil, err
				}
				samples, err := s.wakings(c.sessions)
				return samples, errors.Join(err, s.stop())
			}, nil
		},
	}
}

// wakings sends one message after the other, and takes the time from the sender's
// answer, which follows the commit as the waking does, until the waiter hears of
// it. One that hears before the sender does took no time. A round trip is a question
// that needs a token and a look at the ledger.
func (s *server) wakings(sessions []string) ([]sample, error) {
	var callers [2]*caller
	for i := range callers {
		var err error
		if callers[i], err = s.dial(); err != nil {
			return nil, err
		}
		defer callers[i].conn.Close()
	}
	sender, follower := callers[0], callers[1]
	var trips []float64
	var end int64
	for range wakings {
		began := time.Now()
		var err error
		if end, err = s.end(sender); err != nil {
			return nil, err
		}
		trips = append(trips, time.Since(began).Seconds())
	}
	if err := follower.send("GET", "/v1/events?from="+strconv.FormatInt(end+1, 10), nil, "text/event-stream"); err != nil {
		return nil, err
	}
	if _, err := follower.header(); err != nil {
		return nil, err
	}
	heard, failed := make(chan time.Time, 1), make(chan error, 2)
	go func() { failed <- follower.hear("message.sent", heard) }()

	// woken sends a message while somebody waits, and gives when the sender was
	// answered, and when the waiter and the follower heard.
	woken := func(wait ops.WaitRequest, q ops.SendRequest) (answered, came, follows time.Time, err error) {
		// A wait has its connection for itself.
		waiter, err := s.dial()
		if err != nil {
			return
		}
		defer waiter.conn.Close()
		told, begun := make(chan time.Time, 1), make(chan struct{})
		go func() {
			if err := waiter.wait(wait, begun, told); err != nil {
				failed <- fmt.Errorf("wait: %w", err)
			}
		}()
		<-begun
		time.Sleep(5 * time.Millisecond) // until it has looked, and waits
		if _, err = sender.call(&api.Send.Route, q); err != nil {
			return
		}
		answered = time.Now()
		for came.IsZero() || follows.IsZero() {
			select {
			case at, open := <-told:
				if !open && came.IsZero() {
					err = errors.New("a wait ended and nothing came")
					return
				}
				if !open {
					told = nil // it has ended before the follower heard
					continue
				}
				came = at
			case follows = <-heard:
			case err = <-failed:
				return
			}
		}
		if told == nil {
			return
		}
		if _, open := <-told; open { // closed at the end of the wait
			err = errors.New("one message woke twice")
		}
		return
	}
	var waits, follows, mails []float64
	for range wakings {
		// A third one waits for the answer. It is told at once if it comes too late to wait.
		said, err := sender.call(&api.Send.Route, messageTo(sessions[0], sessions[1]))
		if err != nil {
			return nil, err
		}
		var root struct{ Receipt struct{ ID string } }
		if err := json.Unmarshal(said, &root); err != nil {
			return nil, err
		}
		<-heard
		answer := messageTo(sessions[0], sessions[1])
		answer.ReplyTo = root.Receipt.ID
		answered, came, followed, err := woken(ops.WaitRequest{Asker: ops.Asker{As: sessions[2]}, ID: root.Receipt.ID, For: ops.WaitReply}, answer)
		if err != nil {
			return nil, err
		}
		waits = append(waits, max(0, came.Sub(answered).Seconds()))
		follows = append(follows, max(0, followed.Sub(answered).Seconds()))
		if answered, came, _, err = woken(ops.WaitRequest{Asker: ops.Asker{As: sessions[3]}}, messageTo(sessions[0], sessions[3])); err != nil {
			return nil, err
		}
		mails = append(mails, max(0, came.Sub(answered).Seconds()))
	}
	trip := median(trips)
	return []sample{
		{measured: percentile(waits, 99), reference: trip},
		{measured: percentile(follows, 99), reference: trip},
		{measured: percentile(mails, 99), reference: trip},
	}, nil
}

func (s *server) end(c *caller) (int64, error) {
	body, err := c.call(&api.Position.Route, struct{}{})
	if err != nil {
		return 0, err
	}
	var found struct{ At int64 }
	return found.At, json.Unmarshal(body, &found)
}

// hear tells of each event of a type in a stream of them, until that ends.
func (c *caller) hear(kind string, heard chan<- time.Time) error {
	says := []byte("event: " + kind + "\n")
	var before []byte
	for {
		chunk, err := c.chunk()
		if err != nil || len(chunk) == 0 {
			return fmt.Errorf("events end after %q: %w", before, errors.Join(err, io.EOF))
		}
		at := time.Now()
		// Where several come at once, a chunk may end in the midst of that.
		all := append(before[max(0, len(before)-len(says)+1):len(before):len(before)], chunk...)
		before = all
		for range bytes.Count(all, says) {
			heard <- at
		}
	}
}

// wait waits for something, tells when it came, and confirms it if it is the
// waiter's own mail. begun is closed once the server has begun to answer, came at
// the end.
func (c *caller) wait(q ops.WaitRequest, begun chan<- struct{}, came chan<- time.Time) error {
	err := c.beginWait(q)
	close(begun)
	for err == nil {
		var chunk []byte
		if chunk, err = c.chunk(); err != nil || len(chunk) == 0 {
			break
		}
		at := time.Now()
		var l api.WaitLine
		if err = json.Unmarshal(chunk, &l); err != nil || l.Came == nil {
			continue
		}
		came <- at
		if l.Came.Lease == "" {
			continue
		}
		var confirming *caller
		if confirming, err = c.of.dial(); err == nil {
			_, err = confirming.call(&api.Confirm.Route, map[string]any{"as": q.As, "lease": l.Came.Lease})
			err = errors.Join(err, confirming.conn.Close())
		}
	}
	if err == nil {
		close(came)
	}
	return err
}

// beginWait asks to wait, until the server has begun to answer.
func (c *caller) beginWait(q ops.WaitRequest) error {
	target, body, err := api.Wait.Write(api.WaitRequest{WaitRequest: q})
	if err == nil {
		err = c.send(api.Wait.Method, target, body, "application/x-ndjson")
	}
	if err == nil {
		_, err = c.header()
	}
	return err
}

func manyWaiting() row {
	const few, many = 100, 10_000
	return row{
		name: "crowd",
		lines: []line{
			{fmt.Sprintf("send while %d sessions wait: p99", many), fmt.Sprintf("while %d do", few), seconds, atMost(3)},
			{fmt.Sprintf("serve with %d waiting, peak memory", many), fmt.Sprintf("with %d", few), megabytes, atMost(250)},
		},
		begin: func(b *bench) (round, error) {
			ledgers := map[int]string{}
			crowds := map[int]*crowd{}
			for _, size := range []int{few, many} {
				var err error
				if ledgers[size], crowds[size], err = b.crowded("crowd-"+strconv.Itoa(size), size); err != nil {
					return nil, err
				}
			}
			return func() ([]sample, error) {
				var p99, mb [2]float64
				for i, size := range []int{many, few} {
					s, err := b.serve(ledgers[size])
					if err != nil {
						return nil, err
					}
					p99[i], err = s.sendAmid(crowds[size].sessions)
					if err == nil {
						mb[i], err = s.residentMB()
					}
					if err := errors.Join(err, s.stop()); err != nil {
						return nil, err
					}
					if err := b.drained(ledgers[size], crowds[size].sessions); err != nil {
						return nil, err
					}
				}
				return []sample{{measured: p99[0], reference: p99[1]}, {measured: mb[0], reference: mb[1]}}, nil
			}, nil
		},
	}
}

// sendAmid lets every session wait, and then one send after the other, each to
// another session, which it wakes.
func (s *server) sendAmid(sessions []string) (p99 float64, err error) {
	var waiters []*caller
	defer func() {
		for _, w := range waiters {
			err = errors.Join(err, w.conn.Close())
		}
	}()
	for _, session := range sessions {
		w, err := s.dial()
		if err != nil {
			return 0, err
		}
		waiters = append(waiters, w)
		if err := w.beginWait(ops.WaitRequest{Asker: ops.Asker{As: session}}); err != nil {
			return 0, fmt.Errorf("waiter %d: %w", len(waiters), err)
		}
	}
	sender, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer sender.conn.Close()
	var times []float64
	for i := range wakings {
		to := i * (len(sessions) / 100) % len(sessions)
		from := sessions[(to+1)%len(sessions)]
		began := time.Now()
		if _, err := sender.call(&api.Send.Route, messageTo(from, sessions[to])); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return percentile(times, 99), nil
}
