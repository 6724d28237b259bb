package esdbdouble_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"golang.org/x/sys/unix"

	"decklog/internal/esdbdouble"
)

// inNamespace is set for the process that plays the cluster.
const inNamespace = "DECKLOG_DOUBLE_IN_NAMESPACE"

// A network that is cut says nothing, unlike a process that ends: no reset comes,
// and what was sent is simply gone. So three nodes have a network each, and a
// cable can be pulled. All of it is in a namespace of a process of its own, which
// takes it along when it ends.
func TestThreeNodesOnANetworkOfTheirOwn(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		pullTheLeadersCable(t)
		return
	}
	if testing.Short() {
		t.Skip("it starts a process")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("there is no ip command to lay the cables with")
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), inNamespace+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := again.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("root may make no network namespaces here: %v", err)
	}
	if strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Skipf("the process that plays it skips:\n%s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// namespace is a network namespace, and the thread that is in it.
type namespace struct {
	thread int
	do     chan func()
}

func enter(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{do: make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: nobody else may run on this thread
		err := unix.Unshare(unix.CLONE_NEWNET)
		n.thread = unix.Gettid()
		entered <- err
		for f := range n.do {
			f()
		}
	}()
	if err := <-entered; err != nil {
		t.Skipf("root may make no network namespaces here: %v", err)
	}
	t.Cleanup(func() { close(n.do) })
	return n
}

// in runs something on the namespace's thread.
func (n *namespace) in(f func() error) error {
	failed := make(chan error)
	n.do <- func() { failed <- f() }
	return <-failed
}

func (n *namespace) listen(address string) (l net.Listener, err error) {
	err = n.in(func() error {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l, err
}

func ip(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

func pullTheLeadersCable(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := ip("link add hub type bridge"); err != nil {
		t.Skipf("without a bridge there is no network to cut: %v", err)
	}
	// Addresses of the hardware are given out by hand and known to all: else a
	// bridge changes its own as cables come and go, and packets go to the old one.
	must(ip("link set hub address 02:00:00:00:00:fe"))
	must(ip("addr add 10.77.0.254/24 dev hub"))
	must(ip("link set hub up"))

	l := esdbdouble.NewLog()
	var nodes []esdbdouble.Config
	for i := 1; i <= 3; i++ {
		n := enter(t)
		must(ip(fmt.Sprintf("link add cable%d type veth peer name eth0 address 02:00:00:00:00:0%d netns %d", i, i, n.thread)))
		must(ip(fmt.Sprintf("link set cable%d master hub up", i)))
		must(n.in(func() error {
			return errors.Join(
				ip("link set lo up"), ip(fmt.Sprintf("addr add 10.77.0.%d/24 dev eth0", i)), ip("link set eth0 up"),
				ip("neigh add 10.77.0.254 lladdr 02:00:00:00:00:fe dev eth0 nud permanent"),
			)
		}))
		must(ip(fmt.Sprintf("neigh add 10.77.0.%d lladdr 02:00:00:00:00:0%d dev hub nud permanent", i, i)))
		nodes = append(nodes, esdbdouble.Config{Address: fmt.Sprintf("10.77.0.%d:2113", i), Listen: n.listen})
	}
	cluster, err := esdbdouble.StartCluster(l, nodes...)
	must(err)
	defer cluster.Stop()
	leader, next := cluster.Nodes()[0], cluster.Nodes()[1]

	c := dial(t, cluster.Seeds())
	c.append("dl.thread-1", esdb.NoStream{}, "a")
	if n := leader.Calls(esdbdouble.Append); n != 1 {
		t.Fatalf("%d appends came to the leader", n)
	}
	far := dial(t, next.URL())
	sub := far.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes()})
	sub.wants("dl.thread-1 0", "checkpoint", "caught up")

	ctx, giveUp := context.WithCancel(t.Context())
	leader.Inject(esdbdouble.Fault{
		Call: esdbdouble.Append, Point: esdbdouble.Answer,
		Effect: esdbdouble.Do(func() {
			if err := ip("link set cable1 nomaster"); err != nil {
				t.Error(err)
			}
			giveUp() // the client would wait for as long as it has patience
		}),
	})
	_, err = c.AppendToStream(ctx, "dl.thread-1", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Revision(0)}, event("b"))
	if err == nil {
		t.Error("an append is answered over no cable")
	}
	sub.wants("dl.thread-1 1")
	<-ctx.Done()

	cluster.Elect(next)
	c = dial(t, cluster.Seeds())
	if w := c.append("dl.thread-1", esdb.Revision(0), "b"); w.NextExpectedVersion != 1 {
		t.Errorf("asked again: %+v", w)
	}
	c.append("dl.thread-1", esdb.Revision(1), "c")
	sub.wants("dl.thread-1 2")
	if n := next.Calls(esdbdouble.Append); n != 2 {
		t.Errorf("%d appends came to the next leader", n)
	}

	must(ip("link set cable1 master hub"))
	back := dial(t, leader.URL())
	back.append("dl.thread-1", esdb.Revision(2), "d") // which it hands on
	back.same(back.stream("dl.thread-1", esdb.ReadStreamOptions{}), []string{"dl.thread-1 0 a", "dl.thread-1 1 b", "dl.thread-1 2 c", "dl.thread-1 3 d"})
	sub.wants("dl.thread-1 3")
}
