package esdbdouble

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// What a server is set up with when nothing else is said.
const (
	DefaultVersion        = "25.1.0"
	DefaultAppendBytesMax = 1 << 20
)

// messageBytesMax is the most that one message may have. It lies above what one
// record of the log could hold, and above the default of grpc.
const messageBytesMax = 17 << 20

// pingEvery is how often a client may ping. Clients do so each ten seconds, even
// when they call nothing, and grpc's own patience would cut them off.
const pingEvery = 5 * time.Second

// Config is what a server is set up with. The zero value is a single server on a
// free port of this machine, without encryption and without users.
type Config struct {
	Address   string // host:port; empty is a free port of 127.0.0.1
	Advertise string // the host:port that gossip names; empty is Address

	// Listen makes the listener, and makes it again at each start. It is for one
	// that lies in another network namespace.
	Listen func(address string) (net.Listener, error)

	TLS   *tls.Config
	Users []User // when there are any, each call needs one

	Version        string // empty is DefaultVersion
	AppendBytesMax int    // 0 is DefaultAppendBytesMax
	IDsBytesMax    int    // how much it remembers of what it wrote; 0 is 8 MiB
	Quirks         Quirks
}

// User is one who may call a server. Only an admin may read $all, and the
// streams whose names begin with a dollar sign.
type User struct {
	Name, Password string
	Admin          bool
}

// Server is one node: a process that can end and begin again on the same
// address. What it wrote is in its [Log] and outlives it; what it remembers does
// not.
type Server struct {
	log     *Log
	config  Config
	cluster *Cluster
	faults  faults
	id      uuid.UUID

	conflicts atomic.Int64

	mu      sync.Mutex // of what follows; log.mu may be taken under it, not the other way
	address string
	quirks  Quirks
	gossip  func([]*gossip.MemberInfo) []*gossip.MemberInfo
	dropped chan struct{} // closed to end all subscriptions
	reason  error

	// The log's lock guards these.
	life *life // nil while it does not run
	held int64 // what a follower that lags knows of the log; -1 is all
}

// life is a server from one start to its end.
type life struct {
	grpc        *grpc.Server
	connections *connections
	known       *ids
	ended       atomic.Bool // set under the log's lock: nothing is written after it
}

// Start starts a server on a log.
func Start(l *Log, c Config) (*Server, error) {
	s := newServer(l, c)
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

func newServer(l *Log, c Config) *Server {
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	if c.Version == "" {
		c.Version = DefaultVersion
	}
	if c.AppendBytesMax == 0 {
		c.AppendBytesMax = DefaultAppendBytesMax
	}
	if c.IDsBytesMax == 0 {
		c.IDsBytesMax = idsBytesMax
	}
	if c.Listen == nil {
		c.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	return &Server{log: l, config: c, id: uuid.New(), address: c.Address, quirks: c.Quirks, dropped: make(chan struct{}), held: -1}
}

// Start starts the server again after [Server.Stop], on the address that it had.
// It remembers nothing of the events that it wrote.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() != nil {
		return nil
	}
	listener, err := s.config.Listen(s.address)
	if err != nil {
		return fmt.Errorf("start double: %w", err)
	}
	s.address = listener.Addr().String()

	life := &life{connections: &connections{Listener: listener, open: map[string]net.Conn{}}, known: newIDs(s.config.IDsBytesMax)}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			answer, err := next(ctx, req)
			return answer, onWire(ctx, err)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return onWire(stream.Context(), next(srv, stream))
		}),
	}
	if s.config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.config.TLS)))
	}
	life.grpc = grpc.NewServer(options...)
	streams.RegisterStreamsServer(life.grpc, &streamsService{server: s, life: life})
	gossip.RegisterGossipServer(life.grpc, &gossipService{server: s, life: life})
	serverfeatures.RegisterServerFeaturesServer(life.grpc, &featuresService{server: s, life: life})

	s.log.mu.Lock()
	s.life = life
	if s.cluster == nil {
		s.log.epoch()
	}
	s.log.mu.Unlock()
	go func() { _ = life.grpc.Serve(life.connections) }() // ends with Stop, and says so
	return nil
}

// Stop ends the server as kill -9 would: its connections are cut, what it has
// not written is never written, and what it remembered is gone.
func (s *Server) Stop() {
	s.log.mu.Lock()
	life := s.life
	if life == nil {
		s.log.mu.Unlock()
		return
	}
	life.ended.Store(true)
	s.life = nil
	s.log.mu.Unlock()

	_ = life.connections.Close() // before the rest, so that nothing that was accepted is missed
	life.connections.resetAll()
	life.grpc.Stop()
}

// running is the server's present life, or nil.
func (s *Server) running() *life {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return s.life
}

// Address is the host:port on which the server listens.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// URL is a connection string for a server by itself.
func (s *Server) URL() string {
	if s.config.TLS != nil {
		return "esdb://" + s.Address()
	}
	return "esdb://" + s.Address() + "?tls=false"
}

// advertised is where gossip says that the server is.
func (s *Server) advertised() (host string, port int) {
	address := s.config.Advertise
	if address == "" {
		address = s.Address()
	}
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	port, _ = strconv.Atoi(number)
	return host, port
}

// Inject makes something go wrong.
func (s *Server) Inject(f Fault) *Injected { return s.faults.inject(f) }

// Heal lifts all faults.
func (s *Server) Heal() { s.faults.clear() }

// Calls is how many calls of a name have come, over all starts.
func (s *Server) Calls(name string) int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return s.faults.calls[name]
}

// Conflicts is how many appends were answered that their revision was wrong, over
// all starts.
func (s *Server) Conflicts() int { return int(s.conflicts.Load()) }

// SetQuirks makes the server like one of another version, for what is called
// from now on.
func (s *Server) SetQuirks(q Quirks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quirks = q
}

func (s *Server) quirksNow() Quirks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quirks
}

// ForgetIDs empties the server's memory of the events that it wrote, as time and
// other writers do.
func (s *Server) ForgetIDs() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.life != nil {
		s.life.known = newIDs(s.config.IDsBytesMax)
	}
}

// Connections is how many connections are open.
func (s *Server) Connections() int {
	if l := s.running(); l != nil {
		return l.connections.count()
	}
	return 0
}

// CutConnections resets all connections. The server goes on.
func (s *Server) CutConnections() {
	if l := s.running(); l != nil {
		l.connections.resetAll()
	}
}

// DropSubscriptions ends all subscriptions with an error, and leaves the
// connections.
func (s *Server) DropSubscriptions(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = reason
	close(s.dropped)
	s.dropped = make(chan struct{})
}

func (s *Server) drops() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

func (s *Server) dropReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Lag makes a follower know nothing of the log that is not there yet, until
// [Server.CatchUp].
func (s *Server) Lag() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.held = s.log.end
}

// CatchUp ends what [Server.Lag] began.
func (s *Server) CatchUp() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.held = -1
	s.log.tell()
}

// sight is how far the server knows the log, and what is closed when that may
// have changed.
func (s *Server) sight() (until int64, grown <-chan struct{}) {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	if s.held >= 0 {
		return min(s.held, s.log.durable), s.log.grown
	}
	return s.log.durable, s.log.grown
}

// connections are a listener that can cut what it has accepted.
type connections struct {
	net.Listener

	mu   sync.Mutex
	open map[string]net.Conn
}

type connection struct {
	net.Conn
	of *connections
}

func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn.RemoteAddr().String()] = conn
	return &connection{conn, c}, nil
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	if c.of.open[c.RemoteAddr().String()] == c.Conn {
		delete(c.of.open, c.RemoteAddr().String())
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// reset ends the connection with an address, without a goodbye.
func (c *connections) reset(address net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, there := c.open[address.String()]; there {
		reset(conn)
	}
}

func (c *connections) resetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		reset(conn)
	}
}

func reset(conn net.Conn) {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
