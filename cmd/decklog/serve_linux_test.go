package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/remote"
	"decklog/internal/token"
)

// served is a `decklog serve` at work.
type served struct {
	cmd          *exec.Cmd
	http, socket string
}

// serves starts a server of the machine's ledger, and waits until it listens.
func (m *machine) serves(args ...string) *served {
	m.Helper()
	s := &served{cmd: m.command(append([]string{"serve", "--json", "--quiet"}, args...)...)}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	m.ok(err)
	m.ok(s.cmd.Start())
	m.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	var at struct{ Serving struct{ HTTP, Socket string } }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		m.Fatalf("the server did not come: %v", err)
	}
	s.http, s.socket = at.Serving.HTTP, at.Serving.Socket
	return s
}

func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// secret is the machine's own token.
func (m *machine) secret() string {
	m.Helper()
	secret, err := token.OfMachine(filepath.Dir(m.file()))
	m.ok(err)
	return secret
}

// client reaches a server as this process.
func (m *machine) client(url string) *remote.Client {
	env := newEnv()
	env.World.Environ = func(string) string { return "" }
	env.World.Ancestors = func() []events.Process { return nil }
	return remote.New(remote.Config{Server: url, Token: m.secret(), World: env.World, Patience: patience})
}

// noLimits is a policy under which anybody may send as much as they like.
const noLimits = `[limits]
session_rate = 0
device_rate = 0
person_rate = 0
thread_rate = 0
recipient_full = 0
`

func TestAServerThatIsKilledUnderLoadLosesNothingAndItsClientsGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a server again and again")
	}
	const clients, rounds, port = 8, 10, "127.0.0.1:0"
	m := aboard(t)
	m.ok(os.MkdirAll(filepath.Dir(m.file()), 0o700))
	m.ok(os.WriteFile(filepath.Join(filepath.Dir(m.file()), "decklog.toml"), []byte(noLimits), 0o600))
	server := m.serves("--listen", port)
	m.ok(m.command("join", "--session", "taker-0001", "--ledger", server.socket).Run())

	ctx, stop := context.WithCancel(context.Background())
	var acknowledged sync.Map
	var sent atomic.Int64
	more := make(chan struct{}, clients)
	var work sync.WaitGroup
	for n := range clients {
		id := fmt.Sprintf("sender-%04d", n)
		client := m.client(server.socket)
		if _, r, err := client.Join(ops.JoinRequest{Session: id}); r != nil || err != nil {
			t.Fatal(r, err)
		}
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				receipt, r, err := client.Send(ops.SendRequest{Asker: ops.Asker{As: id}, To: "taker-0001", Body: fmt.Appendf(nil, "number %d of %s", i, id)})
				if r != nil || err != nil {
					t.Errorf("%s, number %d: %v %v", id, i, r, err)
					return
				}
				if _, twice := acknowledged.LoadOrStore(receipt.ID, true); twice {
					t.Errorf("two messages got the id %s", receipt.ID)
				}
				sent.Add(1)
				select {
				case more <- struct{}{}:
				default: // nobody counts now
				}
			}
		})
	}
	follower := m.follow("--ledger", server.socket)
	for range rounds {
		for range 20 {
			<-more
		}
		server.kill()
		server = m.serves("--listen", port)
	}
	stop()
	work.Wait()

	end, err := m.client(server.socket).End()
	m.ok(err)
	m.ok(follower.until(end, func(ops.EventShown) bool { return true }))
	follower.mu.Lock()
	defer follower.mu.Unlock()
	messages := map[string]int{}
	for i, e := range follower.seen {
		if e.Position != events.Position(i+1) {
			t.Fatalf("event %d of the follower has position %d", i+1, e.Position)
		}
		if e.Type == events.TypeMessageSent {
			var data struct{ Message string }
			m.ok(json.Unmarshal(e.Data, &data))
			messages[data.Message]++
		}
	}
	acknowledged.Range(func(id, _ any) bool {
		if messages[fmt.Sprint(id)] != 1 {
			t.Errorf("message %v was acknowledged, and is there %d times", id, messages[fmt.Sprint(id)])
		}
		return true
	})
	if int64(len(messages)) < sent.Load() {
		t.Errorf("%d messages are there, and %d were acknowledged", len(messages), sent.Load())
	}
	if out, err := m.command("verify").CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	t.Logf("%d messages, %d kills", sent.Load(), rounds)
}

func TestF25ASecondServerOnTheSameFileWorksBesideTheFirst(t *testing.T) {
	m := aboard(t)
	first := m.serves("--listen", "127.0.0.1:0")
	refused := m.command("serve", "--listen", "127.0.0.1:0")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "already_served") {
		t.Errorf("two servers on one socket: %v\n%s", err, out)
	}
	second := m.serves("--listen", "127.0.0.1:0", "--socket", filepath.Join(m.dir, "second.sock"))
	m.ok(m.command("join", "--session", "alice-0001", "--ledger", first.socket).Run())
	m.ok(m.command("join", "--session", "bob-00002", "--ledger", first.socket).Run())
	// What waits at one server is woken by what comes through the other, or past both.
	for name, through := range map[string]string{"the second server": second.http, "the file": m.url} {
		waits := m.client(first.socket)
		came := make(chan ops.Waited, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			w, r, err := waits.Wait(ctx, ops.WaitRequest{Asker: ops.Asker{As: "bob-00002"}}, func(ops.Waited) error { return nil })
			if r != nil || err != nil {
				t.Error(r, err)
			}
			came <- w
		}()
		send := m.with("DECKLOG_TOKEN="+m.secret()).command("send", "--ledger", through, "--as", "alice-0001", "--to", "bob-00002", "--", "By "+name+".")
		if out, err := send.CombinedOutput(); err != nil {
			t.Fatalf("send: %v\n%s", err, out)
		}
		for found := false; !found; {
			w := <-came
			for _, message := range w.Messages {
				found = found || message.Body == "By "+name+"."
			}
			if !found && !w.TimedOut {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					w, _, _ := waits.Wait(ctx, ops.WaitRequest{Asker: ops.Asker{As: "bob-00002"}}, func(ops.Waited) error { return nil })
					came <- w
				}()
			} else if !found {
				t.Fatalf("what came through %s woke nobody", name)
			}
		}
	}
	for _, s := range []*served{first, second} {
		m.ok(s.cmd.Process.Signal(syscall.SIGTERM))
		m.ok(s.cmd.Wait())
	}
	if out, err := m.command("verify").CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// get asks a server for something, with the machine's token.
func (m *machine) get(ctx context.Context, s *served, path string, header ...string) *http.Response {
	m.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+path, nil)
	m.ok(err)
	req.Header.Set("Authorization", "Bearer "+m.secret())
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	m.ok(err)
	return res
}

func TestAStreamOfEventsIsResumedWhereItEnded(t *testing.T) {
	m := aboard(t)
	server := m.serves("--listen", "127.0.0.1:0")
	m.ok(m.command("join", "--session", "alice-0001", "--ledger", server.socket).Run())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res := m.get(ctx, server, "/v1/events?from=1")
	lines := bufio.NewReader(res.Body)
	next := func() (id int, kind, data string) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended: %v", err)
			}
			switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); name {
			case "id":
				id, err = strconv.Atoi(value)
				m.ok(err)
			case "event":
				kind = value
			case "data":
				data = value
			case "":
				if kind != "" {
					return id, kind, data
				}
			}
		}
	}
	if id, kind, _ := next(); id != 1 || kind != "policy.adopted" {
		t.Errorf("the first event is %d, %s", id, kind)
	}
	if id, kind, _ := next(); id != 2 || kind != "session.joined" {
		t.Errorf("the second event is %d, %s", id, kind)
	}
	m.ok(m.command("join", "--session", "bob-00002", "--ledger", server.socket).Run())
	if id, _, data := next(); id != 3 || !strings.Contains(data, `"bob-00002"`) {
		t.Errorf("what came is %d, %s", id, data)
	}
	// A server that ends says so, and what comes later is there for who comes back.
	m.ok(server.cmd.Process.Signal(syscall.SIGTERM))
	if _, kind, data := next(); kind != "end" || !strings.Contains(data, `"shutdown"`) {
		t.Errorf("the stream ended with %s %s", kind, data)
	}
	if rest, err := io.ReadAll(lines); err != nil {
		t.Errorf("the stream broke off: %v after %q", err, rest)
	}
	m.ok(server.cmd.Wait())
	m.ok(m.command("join", "--session", "carol-003").Run())
	server = m.serves("--listen", "127.0.0.1:0")
	res = m.get(ctx, server, "/v1/events?from=1", "Last-Event-ID", "3")
	lines = bufio.NewReader(res.Body)
	if id, _, data := next(); id != 4 || !strings.Contains(data, `"carol-003"`) {
		t.Errorf("after the third comes %d, %s", id, data)
	}
}
