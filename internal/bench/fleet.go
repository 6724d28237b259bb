//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/esdb"
	"decklog/internal/esdbdouble"
	"decklog/projections"
)

// The rows of the fleet measure a ledger in EventStoreDB beside the bare client,
// which does the same appends, or reads the same events, through the same server: a
// protocol double in a process of its own. A real server answers once it has synced
// and replicated; the double does after its sync, or, on a log in memory, at once.
// Then little else is measured than how long cores were busy, which the double shares
// with who asks it; so those lines have no goal, and how long that was has its own.

// cluster is a double, as a process of its own.
type cluster struct {
	cmd   *exec.Cmd
	input io.Closer
	url   string
}

// double starts one whose log lies in a file; in memory where file is empty.
func (b *bench) double(file string) (*cluster, error) {
	if err := b.build(); err != nil {
		return nil, err
	}
	args := []string{"-insecure", "127.0.0.1:0"}
	if file != "" {
		args = append(args, "-log", file)
	}
	c := &cluster{cmd: exec.Command(b.program("double"), args...)}
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.input, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the double does not say where it listens: %w", err), c.stop())
	}
	c.url = strings.TrimSpace(line)
	return c, nil
}

// busy is how long this process and the double have kept cores busy.
func (c *cluster) busy() (all time.Duration, err error) {
	for _, pid := range []int{os.Getpid(), c.cmd.Process.Pid} {
		var t unix.Timespec
		const ofProcess = 2
		if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &t); err != nil {
			return 0, fmt.Errorf("read the clock of process %d: %w", pid, err)
		}
		all += time.Duration(t.Nano())
	}
	return all, nil
}

func (c *cluster) stop() error {
	return errors.Join(c.input.Close(), c.cmd.Wait())
}

// machine opens the ledger of a machine, whose views lie in a folder.
func (c *cluster) machine(folder, prefix string, project events.Projector) (*esdb.Ledger, error) {
	a, err := esdb.Parse(c.url + "&prefix=" + prefix + "&views=" + filepath.Join(folder, "views.db"))
	if err != nil {
		return nil, err
	}
	return esdb.Open(a, project)
}

// bare is a client of the library, with nothing around it.
func (c *cluster) bare() (*client.Client, error) {
	config, err := client.ParseConnectionString(c.url)
	if err != nil {
		return nil, err
	}
	config.Logger = client.NoopLogging()
	return client.NewClient(config)
}

// errand is one command's event, and what the cluster is given for it: its body, if
// it has one, and itself.
type errand struct {
	batch  events.Batch
	writes []write
}

type write struct {
	stream   string
	expected client.ExpectedRevision
	data     client.EventData
}

// rehearse makes so many errands for each worker, a plausible history of its own, by
// having a ledger append them to a double in this process, and looking at what came
// there. The first of all is the policy, which the others name.
func rehearse(folder string, each []int) (policy errand, workers [][]errand, err error) {
	log := esdbdouble.NewLog()
	s, err := esdbdouble.Start(log, esdbdouble.Config{})
	if err != nil {
		return policy, nil, err
	}
	defer s.Stop()
	const prefix = "dl."
	ledger, err := (&cluster{url: s.URL()}).machine(folder, prefix, noViews)
	if err != nil {
		return policy, nil, err
	}
	defer ledger.Close()
	for n, count := range each {
		w, r := newWriter(max(count+1, smallEvents)), &recorder{}
		w.numbers = rand.New(rand.NewPCG(20261130, uint64(n)))
		for w.done < w.count {
			if err := w.write(r); err != nil {
				return policy, nil, err
			}
		}
		batches := r.all[1 : 1+count]
		if n == 0 {
			batches = r.all[:1+count]
		}
		var mine []errand
		for _, b := range batches {
			if err := ledger.Update(func(tx events.Tx) error { _, err := tx.Append(b); return err }); err != nil {
				return policy, nil, err
			}
			mine = append(mine, errand{batch: b})
		}
		workers = append(workers, mine)
	}
	came := map[string][]write{} // by the event's id
	for _, e := range log.Events(prefix) {
		to := write{e.Stream[len(prefix):], client.NoStream{}, client.EventData{
			EventID: e.ID, EventType: e.Type, ContentType: client.ContentTypeJson, Data: e.Data, Metadata: e.Metadata,
		}}
		if e.Revision > 0 {
			to.expected = client.Revision(e.Revision - 1)
		}
		id := e.ID.String()
		if body, is := strings.CutPrefix(to.stream, "body-"); is {
			id = body[:len(id)]
		}
		came[id] = append(came[id], to)
	}
	for _, mine := range workers {
		for i, e := range mine {
			mine[i].writes = came[string(e.batch.Events[0].ID)]
			if wants := 1; len(mine[i].writes) < wants {
				return policy, nil, errNothing
			}
		}
	}
	return workers[0][0], append([][]errand{workers[0][1:]}, workers[1:]...), nil
}

func noViews(events.Rows, []events.Recorded) error { return nil }

// recorder keeps what a writer appends.
type recorder struct {
	events.Tx
	all []events.Batch
}

func (r *recorder) Append(b events.Batch) ([]events.Recorded, error) {
	data, _, err := events.Encode(b.Events[0].Event)
	r.all = append(r.all, b)
	return []events.Recorded{{Data: data}}, err
}

// fleet is who appends: machines with a ledger each, or as many bare clients, on
// streams of their own.
type fleet struct {
	prefix  string
	ledgers []*esdb.Ledger
	clients []*client.Client
	done    []int // by each worker
}

// run runs one errand of a worker as a command does: it looks for its own event, and
// uses of the answer nothing but where the event lies.
func (f *fleet) run(worker int, e errand) error {
	var at events.Position
	return f.ledgers[worker%len(f.ledgers)].Update(func(tx events.Tx) error {
		p := e.batch.Events[0]
		switch found, there, err := tx.Event(p.ID); {
		case there:
			at = found.Position
			return nil
		case err != nil:
			return err
		}
		head, err := tx.Head(p.Stream)
		if err != nil {
			return err
		}
		if head != e.batch.Expected {
			return fmt.Errorf("%s is at revision %d, not %d", p.Stream, head, e.batch.Expected)
		}
		recorded, err := tx.Append(e.batch)
		if err != nil {
			return err
		}
		at = recorded[0].Position
		if placer, is := tx.(events.Placer); is {
			placer.Placed(func(now func(events.Position) events.Position) { at = now(at) })
		}
		return nil
	})
}

// send is the same without a ledger.
func (f *fleet) send(worker int, e errand) error {
	for _, w := range e.writes {
		options := client.AppendToStreamOptions{ExpectedRevision: w.expected}
		if _, err := f.clients[worker%len(f.clients)].AppendToStream(context.Background(), f.prefix+w.stream, options, w.data); err != nil {
			return err
		}
	}
	return nil
}

// turn has workers do a part of their errands together, each its own in order, and
// gives how long all and each of them took.
func (f *fleet) turn(workers [][]errand, each int, do func(int, errand) error) (took time.Duration, latencies []float64, err error) {
	failures, times := make([]error, len(workers)), make([][]float64, len(workers))
	began := time.Now()
	var all sync.WaitGroup
	for n, mine := range workers {
		all.Go(func() {
			for range each {
				began := time.Now()
				if failures[n] = do(n, mine[f.done[n]]); failures[n] != nil {
					return
				}
				times[n] = append(times[n], time.Since(began).Seconds())
				f.done[n]++
			}
		})
	}
	all.Wait()
	return time.Since(began), slices.Concat(times...), errors.Join(failures...)
}

func (f *fleet) close() (err error) {
	for _, l := range f.ledgers {
		err = errors.Join(err, l.Close())
	}
	for _, c := range f.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// fleetTurns is how often the two take turns in a round, and fleetErrands how many
// errands a turn has about. The first fleetJoins of each worker, by which its sessions
// join, are not counted.
const (
	fleetTurns   = 4
	fleetErrands = 192
	fleetJoins   = 30
)

// setting is how many append at once, on how many machines, and to what log.
type setting struct {
	workers, machines int
	durable           bool
}

func (s setting) each() int { return max(fleetErrands/s.workers, 3) }

func (s setting) String() string {
	says := fmt.Sprintf("%d at once", s.workers)
	if s.workers == 1 {
		says = "one alone"
	}
	if s.machines > 1 {
		says += fmt.Sprintf(" on %d machines", s.machines)
	}
	if !s.durable {
		says += ", log in memory"
	}
	return says
}

// name is the row's.
func (s setting) name() string {
	name := fmt.Sprintf("fleet-append-%d", s.workers)
	if s.machines > 1 {
		name += fmt.Sprintf("-on-%d", s.machines)
	}
	if !s.durable {
		name += "-memory"
	}
	return name
}

func fleetAppends() (rows []row) {
	for _, durable := range []bool{true, false} {
		for _, s := range []setting{{1, 1, durable}, {16, 1, durable}, {64, 1, durable}, {16, 2, durable}, {64, 2, durable}} {
			rows = append(rows, s.row())
		}
	}
	return rows
}

func (s setting) row() row {
	wanted := goal{}
	if s.durable {
		wanted = atLeast(0.7)
	}
	return row{
		name: s.name(),
		lines: []line{
			{"fleet append, " + s.String(), "bare client", perSecond, wanted},
			{"fleet append, " + s.String() + ": p50", "bare client", seconds, goal{}},
			{"fleet append, " + s.String() + ": p99", "bare client", seconds, goal{}},
			{"fleet append, " + s.String() + ": processor time of each", "bare client", seconds, goal{}},
		},
		begin: func(b *bench) (round, error) {
			each := make([]int, s.workers)
			for n := range each {
				each[n] = fleetJoins + fleetTurns*s.each()
			}
			policy, workers, err := rehearse(filepath.Join(b.folder, s.name()), each)
			if err != nil {
				return nil, fmt.Errorf("rehearse: %w", err)
			}
			return func() ([]sample, error) { return b.compare(s, policy, workers) }, nil
		},
	}
}

// compare has ledgers and bare clients take turns, and gives their rates and what
// half and nearly all of them waited at most.
func (b *bench) compare(s setting, policy errand, workers [][]errand) (samples []sample, err error) {
	folder, err := os.MkdirTemp(b.folder, "fleet-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := ""
	if s.durable {
		file = filepath.Join(folder, "log")
	}
	c, err := b.double(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	measured, reference := &fleet{prefix: "dl.", done: make([]int, s.workers)}, &fleet{prefix: "bare.", done: make([]int, s.workers)}
	defer func() { err = errors.Join(measured.close(), reference.close(), err) }()
	for m := range s.machines {
		l, err := c.machine(filepath.Join(folder, fmt.Sprint(m)), measured.prefix, projections.Project)
		if err != nil {
			return nil, err
		}
		measured.ledgers = append(measured.ledgers, l)
		bare, err := c.bare()
		if err != nil {
			return nil, err
		}
		reference.clients = append(reference.clients, bare)
	}
	if err := errors.Join(measured.run(0, policy), reference.send(0, policy)); err != nil {
		return nil, err
	}
	_, _, failed := measured.turn(workers, fleetJoins, measured.run)
	if _, _, err := reference.turn(workers, fleetJoins, reference.send); err != nil || failed != nil {
		return nil, errors.Join(failed, err)
	}
	var took, busy [2]time.Duration
	var latencies [2][]float64
	for range fleetTurns {
		for i, turn := range []func() (time.Duration, []float64, error){
			func() (time.Duration, []float64, error) { return measured.turn(workers, s.each(), measured.run) },
			func() (time.Duration, []float64, error) { return reference.turn(workers, s.each(), reference.send) },
		} {
			before, err := c.busy()
			if err != nil {
				return nil, err
			}
			t, times, err := turn()
			if err != nil {
				return nil, err
			}
			after, err := c.busy()
			if err != nil {
				return nil, err
			}
			took[i] += t
			busy[i] += after - before
			latencies[i] = append(latencies[i], times...)
		}
	}
	rate := func(i int) float64 { return float64(len(latencies[i])) / took[i].Seconds() }
	samples = append(samples, sample{measured: rate(0), reference: rate(1)})
	for _, percent := range []int{50, 99} {
		samples = append(samples, sample{measured: percentile(latencies[0], percent), reference: percentile(latencies[1], percent)})
	}
	each := func(i int) float64 { return busy[i].Seconds() / float64(len(latencies[i])) }
	return append(samples, sample{measured: each(0), reference: each(1)}), nil
}

// fleetHistory is how many events a new machine reads.
const fleetHistory = 20_000

func fleetProject() row {
	return row{
		name: "fleet-project",
		lines: []line{
			{fmt.Sprintf("a new machine reads a fleet's %d events, views included", fleetHistory), "bare subscription", perSecond, atLeast(0.5)},
			{"the same without views", "bare subscription", perSecond, goal{}},
			{"a new machine reads a fleet: processor time of what it is told each", "bare subscription", seconds, goal{}},
			{"the same without views", "bare subscription", seconds, goal{}},
		},
		begin: func(b *bench) (round, error) {
			c, err := b.double("")
			if err != nil {
				return nil, err
			}
			told, err := c.fill(filepath.Join(b.folder, "fleet-project"), fleetHistory)
			if err != nil {
				return nil, errors.Join(err, c.stop())
			}
			return func() ([]sample, error) {
				var rates, each [3]float64
				for i, project := range []events.Projector{projections.Project, noViews, nil} {
					before, err := c.busy()
					if err != nil {
						return nil, err
					}
					began := time.Now()
					if project == nil {
						err = c.listen(told)
					} else {
						err = c.follow(b.folder, project)
					}
					if err != nil {
						return nil, err
					}
					rates[i] = float64(told) / time.Since(began).Seconds()
					after, err := c.busy()
					if err != nil {
						return nil, err
					}
					each[i] = (after - before).Seconds() / float64(told)
				}
				return []sample{
					{measured: rates[0], reference: rates[2]}, {measured: rates[1], reference: rates[2]},
					{measured: each[0], reference: each[2]}, {measured: each[1], reference: each[2]},
				}, nil
			}, nil
		},
	}
}

// fill appends a history, and gives how often a subscription tells of something
// until it has all: of events, and of bodies.
func (c *cluster) fill(folder string, count int) (told int, err error) {
	w, r := newWriter(count), &recorder{}
	for w.done < w.count {
		if err := w.write(r); err != nil {
			return 0, err
		}
	}
	l, err := c.machine(folder, "dl.", noViews)
	if err != nil {
		return 0, err
	}
	const atOnce = 100
	for some := range slices.Chunk(r.all, atOnce) {
		if err := l.Update(func(tx events.Tx) error {
			for _, b := range some {
				if _, err := tx.Append(b); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return 0, errors.Join(err, l.Close())
		}
	}
	for _, b := range r.all {
		if told++; b.Events[0].Body != nil {
			told++
		}
	}
	return told, l.Close()
}

// listen subscribes as a machine does, and looks at nothing.
func (c *cluster) listen(told int) error {
	bare, err := c.bare()
	if err != nil {
		return err
	}
	defer bare.Close()
	s, err := bare.SubscribeToAll(context.Background(), client.SubscribeToAllOptions{
		From: client.Start{}, Filter: &client.SubscriptionFilter{Type: client.StreamFilterType, Prefixes: []string{"dl."}}, CheckpointInterval: 32,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	for told > 0 {
		switch e := s.Recv(); {
		case e.EventAppeared != nil:
			told--
		case e.SubscriptionDropped != nil:
			return e.SubscriptionDropped.Error
		}
	}
	return nil
}

// follow is a new machine until it has all.
func (c *cluster) follow(folder string, project events.Projector) error {
	folder, err := os.MkdirTemp(folder, "machine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	l, err := c.machine(folder, "dl.", project)
	if err != nil {
		return err
	}
	return errors.Join(l.Wait(context.Background(), fleetHistory-1), l.Close())
}
