package esdbdouble

import (
	"context"
	"fmt"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"google.golang.org/grpc/codes"
)

// Cluster is several servers with one log, of which one leads. Nobody is elected
// unless the test says so: a leader that ended stays the leader of those that do
// not know better, until [Cluster.Elect].
type Cluster struct {
	log   *Log
	nodes []*Server

	leader *Server // guarded by the log's lock; nil while there is none
}

// StartCluster starts a server for each config. The first leads.
func StartCluster(l *Log, nodes ...Config) (*Cluster, error) {
	c := &Cluster{log: l}
	for _, config := range nodes {
		s := newServer(l, config)
		s.cluster = c
		if err := s.Start(); err != nil {
			c.Stop()
			return nil, err
		}
		c.nodes = append(c.nodes, s)
	}
	c.Elect(c.nodes[0])
	return c, nil
}

// Nodes are the servers, in the order of their configs.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Leader is the server that leads, or nil.
func (c *Cluster) Leader() *Server {
	c.log.mu.RLock()
	defer c.log.mu.RUnlock()
	return c.leader
}

// Followers are the servers that do not lead.
func (c *Cluster) Followers() (followers []*Server) {
	leader := c.Leader()
	for _, s := range c.nodes {
		if s != leader {
			followers = append(followers, s)
		}
	}
	return followers
}

// Elect makes a server the leader; nil leaves the cluster without one. Nothing
// is written between the old leader's last event and the new one's first but what
// says so, and no connection is cut.
func (c *Cluster) Elect(s *Server) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.leader = s
	if s != nil {
		s.held = -1
		c.log.epoch()
		c.log.tell() // also those whom a lagging leader kept waiting
	}
}

// Stop ends all servers.
func (c *Cluster) Stop() {
	for _, s := range c.nodes {
		s.Stop()
	}
}

// Seeds is a connection string that names all servers.
func (c *Cluster) Seeds() string {
	addresses := make([]string, len(c.nodes))
	for i, s := range c.nodes {
		addresses[i] = s.Address()
	}
	url := "esdb://" + strings.Join(addresses, ",")
	if c.nodes[0].config.TLS == nil {
		url += "?tls=false"
	}
	return url
}

// Discover is a connection string that leaves it to one server to name the
// others.
func (c *Cluster) Discover(s *Server) string {
	return strings.Replace(s.URL(), "esdb://", "esdb+discover://", 1)
}

// leads says whether the server leads, as far as it knows, and who does. A server
// by itself leads. The caller holds the log's lock.
func (s *Server) leads() (is bool, leader *Server) {
	if s.cluster == nil {
		return true, s
	}
	return s.cluster.leader == s, s.cluster.leader
}

// leader is the server that a write goes to: followers hand on what they are not
// told to keep to themselves.
func (s *Server) leader(only bool) (*Server, error) {
	s.log.mu.RLock()
	is, leader := s.leads()
	s.log.mu.RUnlock()
	switch {
	case leader == nil:
		return nil, NotReady()
	case !is && only:
		return nil, NotLeader(leader.advertised())
	}
	return leader, nil
}

// commit writes by the leader's hand, if s still is that, and the process that
// took the call still lives. It returns when what was written is durable. What
// repeats an append that is not durable yet is answered with nothing that helps:
// the server drops it, and its client asks again.
func (s *Server) commit(taker *life, write func(*Log, *ids) (done, error)) (done, error) {
	l := s.log
	l.mu.Lock()
	if is, _ := s.leads(); !is || s.life == nil || taker.ended.Load() {
		l.mu.Unlock()
		return done{}, TimedOut()
	}
	before := l.end
	d, err := write(l, s.life.known)
	end, early := l.end, l.end == before && d.position >= l.durable
	l.mu.Unlock()
	if err == nil && (early || l.settle(end) != nil) {
		return done{}, TimedOut()
	}
	return d, err
}

// SetGossip changes what the server says of the cluster, for one that is behind
// the times or mistaken; nil leaves it as it is.
func (s *Server) SetGossip(change func([]*gossip.MemberInfo) []*gossip.MemberInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gossip = change
}

type gossipService struct {
	gossip.UnimplementedGossipServer
	server *Server
	life   *life
}

// Read says who is in the cluster, and who leads it.
func (g *gossipService) Read(ctx context.Context, _ *shared.Empty) (*gossip.ClusterInfo, error) {
	s := g.server
	if err := (&Call{Context: ctx, Server: s, Name: Gossip, life: g.life}).passes(Begin); err != nil {
		return nil, err
	}
	nodes := []*Server{s}
	if s.cluster != nil {
		nodes = s.cluster.nodes
	}
	info := &gossip.ClusterInfo{}
	for _, node := range nodes {
		info.Members = append(info.Members, node.member())
	}
	s.mu.Lock()
	change := s.gossip
	s.mu.Unlock()
	if change != nil {
		info.Members = change(info.Members)
	}
	return info, nil
}

func (s *Server) member() *gossip.MemberInfo {
	host, port := s.advertised()
	m := &gossip.MemberInfo{
		InstanceId:   structured(s.id),
		TimeStamp:    ticks(s.log.now()),
		HttpEndPoint: &gossip.EndPoint{Address: host, Port: uint32(port)},
	}
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	m.IsAlive = s.life != nil
	switch is, leader := s.leads(); {
	case is:
		m.State = gossip.MemberInfo_Leader
	case leader == nil:
		m.State = gossip.MemberInfo_Unknown
	default:
		m.State = gossip.MemberInfo_Follower
	}
	return m
}

type featuresService struct {
	serverfeatures.UnimplementedServerFeaturesServer
	server *Server
	life   *life
}

// GetSupportedMethods lists what is here, and nothing else: clients go by it when
// they choose how to append.
func (f *featuresService) GetSupportedMethods(ctx context.Context, _ *shared.Empty) (*serverfeatures.SupportedMethods, error) {
	s := f.server
	if err := (&Call{Context: ctx, Server: s, Name: Features, life: f.life}).passes(Begin); err != nil {
		return nil, err
	}
	if s.quirksNow().Features == FeaturesUnknown {
		return nil, refuse(codes.Unimplemented, "Service is unimplemented.")
	}
	answer := &serverfeatures.SupportedMethods{EventStoreServerVersion: s.config.Version}
	for service, methods := range map[string][]string{
		"event_store.client.streams.streams":                {"append", "batchappend", "delete", "read", "tombstone"},
		"event_store.client.gossip.gossip":                  {"read"},
		"event_store.client.server_features.serverfeatures": {"getsupportedmethods"},
	} {
		for _, method := range methods {
			answer.Methods = append(answer.Methods, &serverfeatures.SupportedMethod{MethodName: method, ServiceName: service})
		}
	}
	return answer, nil
}

// String names a server for a test's messages.
func (s *Server) String() string { return fmt.Sprintf("double on %s", s.Address()) }
