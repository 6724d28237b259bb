package esdbdouble_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/internal/esdbdouble"
)

func durable(t testing.TB, path string) *esdbdouble.Log {
	t.Helper()
	l, err := esdbdouble.Durable(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "double-") })

// program is the double's own, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "double")
	if out, err := exec.Command("go", "build", "-o", path, "./cmd/double").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the double: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := folder(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// process is a double that runs by itself.
type process struct {
	*exec.Cmd
	url   string
	input io.Closer
}

// run starts a double with its log in a file, and waits until it listens.
func run(t testing.TB, address, file string) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	double, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(double, "-insecure", address, "-log", file)}
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err == nil {
		p.input, err = p.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the double does not say where it listens: %v", err)
	}
	p.url = strings.TrimSpace(line)
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// address is where it listens, to start another there.
func (p *process) address() string {
	_, rest, _ := strings.Cut(p.url, "://")
	at, _, _ := strings.Cut(rest, "?")
	return at
}

// written is an append, and what was answered to it.
type written struct {
	stream string
	at     int // the revision of its first event
	names  []string
	answer *esdb.WriteResult // nil: none came
}

// expected is the revision that it expects.
func (w written) expected() esdb.ExpectedRevision {
	if w.at == 0 {
		return esdb.NoStream{}
	}
	return esdb.Revision(uint64(w.at - 1))
}

func (c client) repeat(w written) (*esdb.WriteResult, error) {
	return c.try(w.stream, w.expected(), w.names...)
}

// places are all events of the test, in their order, each with where it lies.
func (c client) places() (all []string) {
	c.t.Helper()
	names, events, err := c.drain(c.ReadAll(c.t.Context(), esdb.ReadAllOptions{}, 1_000_000))
	if err != nil {
		c.t.Fatal(err)
	}
	for i, e := range events {
		if strings.HasPrefix(e.StreamID, "s-") {
			all = append(all, fmt.Sprintf("%s %s at %d", names[i], e.EventID, e.Position.Commit))
		}
	}
	return all
}

func TestWhatADoubleAcknowledgedOrShowedOutlivesItsKill(t *testing.T) {
	const kills, writers = 6, 8
	file, address := filepath.Join(t.TempDir(), "log"), "127.0.0.1:0"
	var mu sync.Mutex
	var all []written
	next := map[string]int{} // how long each stream is
	lost := 0
	for n := range kills {
		p := run(t, address, file)
		address = p.address()

		// Somebody reads all that is shown until the kill.
		reader := dial(t, p.url)
		s, err := reader.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{
			From: esdb.Start{}, Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"s-"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		var work sync.WaitGroup
		work.Go(func() {
			for {
				e := s.Recv()
				if e.SubscriptionDropped != nil {
					return
				}
				if e.EventAppeared != nil {
					o := e.EventAppeared.OriginalEvent()
					shown = append(shown, fmt.Sprintf("%s %d %s %s at %d", o.StreamID, o.EventNumber, strings.Trim(string(o.Data), `"`), o.EventID, o.Position.Commit))
				}
			}
		})
		busy := make(chan struct{}, 1000)
		for w := range writers {
			stream := fmt.Sprint("s-", w)
			work.Go(func() {
				c := dial(t, p.url)
				for i := 0; ; i++ {
					mu.Lock()
					one := written{stream: stream, at: next[stream]}
					mu.Unlock()
					for k := range 1 + i%3 {
						one.names = append(one.names, fmt.Sprintf("%d-%d-%d-%d", n, w, i, k))
					}
					answer, err := c.repeat(one)
					one.answer = answer
					mu.Lock()
					all = append(all, one)
					if err != nil {
						lost++
					} else {
						next[stream] += len(one.names)
					}
					mu.Unlock()
					if err != nil {
						return
					}
					select {
					case busy <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 20 + rand.IntN(60) {
			<-busy
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // the kill strikes anywhere in an append
		p.kill()
		work.Wait()

		p = run(t, address, file)
		c := dial(t, p.url)
		there := c.places()
		if len(shown) > len(there) {
			t.Fatalf("%d events were shown, and %d are there", len(shown), len(there))
		}
		c.same(there[:len(shown)], shown)
		for i, one := range all {
			again, err := c.repeat(one)
			switch {
			case err != nil:
				t.Fatalf("kill %d: %+v asked again: %v", n, one, err)
			case one.answer == nil:
				all[i].answer = again
				next[one.stream] += len(one.names)
			default:
				c.same(again, one.answer)
			}
		}
		// Everything is there once.
		want := map[string]int{}
		for _, one := range all {
			for k, name := range one.names {
				want[fmt.Sprintf("%s %d %s %s", one.stream, one.at+k, name, event(name).EventID)]++
			}
		}
		got := map[string]int{}
		for _, one := range c.places() {
			what, _, _ := strings.Cut(one, " at ")
			got[what]++
		}
		c.same(got, want)
		p.kill()
	}
	t.Logf("%d appends, %d of them without an answer", len(all), lost)
	if lost == 0 {
		t.Error("no kill struck an append")
	}
}

func TestADoubleThatWasKilledHasForgottenTheIDs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	p := run(t, "127.0.0.1:0", file)
	c := dial(t, p.url)
	c.append("s", esdb.Any{}, "a")
	c.append("s", esdb.Any{}, "a")
	p.kill()
	c = dial(t, run(t, p.address(), file).url)
	c.append("s", esdb.Any{}, "a")
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 a"})
}

// underStrace traces the syncs of a double that runs, and has something happen to
// them from now on. The trace is whole when it was ended.
func underStrace(t *testing.T, p *process, inject string) (trace string, end func()) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace to get in a sync's way")
	}
	trace = filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-o", trace, "-e", "trace=fdatasync", "-e", "inject=fdatasync:"+inject, "-p", fmt.Sprint(p.Process.Pid))
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	line, _ := bufio.NewReader(said).ReadString('\n')
	if !strings.Contains(line, "attached") {
		t.Skipf("strace may not look at a process here: %s", line)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return trace, end
}

func traceable(t *testing.T) (*process, client) {
	t.Helper()
	p := run(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "log"))
	return p, dial(t, p.url)
}

func TestADoubleThatCannotSyncAcknowledgesNothing(t *testing.T) {
	p, c := traceable(t)
	c.append("s", esdb.NoStream{}, "a")
	underStrace(t, p, "error=EIO")
	if _, err := c.try("s", esdb.Revision(0), "b"); err == nil {
		t.Error("an append is acknowledged that was not synced")
	}
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a"})
}

func TestWhatComesWhileADoubleSyncsGoesUnderTheNextSync(t *testing.T) {
	p, _ := traceable(t)
	trace, end := underStrace(t, p, "delay_enter=50ms")
	const writers, each = 16, 4
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			c := dial(t, p.url)
			for i := range each {
				if _, err := c.try(fmt.Sprintf("s-%d-%d", w, i), esdb.NoStream{}, "a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	end()
	traced, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	syncs := bytes.Count(traced, []byte("fdatasync("))
	if t.Logf("%d syncs for %d appends", syncs, writers*each); syncs < each || syncs > writers*each/2 {
		t.Errorf("%d syncs for %d appends of %d writers", syncs, writers*each, writers)
	}
}

// The server answers a conflict from memory, and drops what repeats an append
// that is not durable yet: it must be asked again.
func TestWhatIsNotDurableYetIsInTheWayAndIsNotShown(t *testing.T) {
	p, c := traceable(t)
	underStrace(t, p, "delay_enter=3s")
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, 2)
	for _, name := range []string{"a", "b"} {
		racer := dial(t, p.url)
		go func() {
			_, err := racer.try("s", esdb.NoStream{}, name)
			answers <- answer{name, err}
		}()
	}
	loser := <-answers
	c.wants(loser.err, esdb.ErrorCodeWrongExpectedVersion)
	winner := map[string]string{"a": "b", "b": "a"}[loser.name]
	_, _, err := c.drain(c.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{}, 1))
	c.wants(err, esdb.ErrorCodeResourceNotFound)
	if _, err := c.try("s", esdb.NoStream{}, winner); err == nil {
		t.Error("what repeats an append that is not durable is acknowledged")
	}
	if won := <-answers; won.name != winner || won.err != nil {
		t.Errorf("%s was answered %v", won.name, won.err)
	}
	c.append("s", esdb.NoStream{}, winner)
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 " + winner})
}

func TestALogsTornEndIsCutAndTheRestGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	l := durable(t, file)
	s, err := esdbdouble.Start(l, esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.URL())
	c.append("s", esdb.NoStream{}, "a", "b")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c.append("s", esdb.Revision(1), "c", "d", "e")
	s.Stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := durable(t, file).Events("s")
	if len(want) != 5 {
		t.Fatalf("%d events are there", len(want))
	}
	for cut := len(before); cut < len(whole); cut += 1 + rand.IntN(20) {
		torn := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l := durable(t, torn)
		c.same(l.Events("s"), want[:2])
		s, err := esdbdouble.Start(l, esdbdouble.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, s.URL())
		c.append("s", esdb.Revision(1), "x")
		s.Stop()
		_ = l.Close()
		if after := durable(t, torn).Events("s"); len(after) != 3 {
			t.Errorf("cut at %d: %d events are there after one more", cut, len(after))
		}
	}
	for range 50 {
		bad := bytes.Clone(whole)
		at := rand.IntN(len(bad) - 1) // without the last line's end, it is a torn one
		bad[at] ^= 1 << rand.IntN(8)
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := esdbdouble.Durable(file); err == nil {
			_ = l.Close()
			t.Errorf("a wrong bit in byte %d of %d is taken for none", at, len(bad))
		}
	}
}

func TestAClusterGoesOnWithTheLogOfItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	seen := []esdbdouble.Event{}
	for n := range 3 {
		l := durable(t, file)
		c, err := esdbdouble.StartCluster(l, esdbdouble.Config{}, esdbdouble.Config{})
		if err != nil {
			t.Fatal(err)
		}
		client := dial(t, c.Followers()[0].URL())
		w := client.append("s", esdb.Any{}, fmt.Sprint(n)) // handed on
		now := l.Events("s")
		client.same(now[:n], seen)
		if last := now[n]; last.Position != w.CommitPosition || last.Revision != uint64(n) {
			t.Errorf("%+v was answered for %+v", w, last)
		}
		seen = now
		c.Stop()
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
