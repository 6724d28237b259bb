package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"decklog/cmd/internal/surroundings"
	"decklog/internal/bell"
	"decklog/internal/cli"
	"decklog/internal/dashboard"
	"decklog/internal/esdb"
	"decklog/internal/failure"
	"decklog/internal/mcp"
	"decklog/internal/metrics"
	"decklog/internal/ops"
	"decklog/internal/process"
	"decklog/internal/runs"
	"decklog/internal/serve"
	"decklog/internal/socket"
	"decklog/internal/sqlite"
	"decklog/internal/token"
	"decklog/projections"
)

// serveFlags is the command line of serve.
type serveFlags struct {
	ledger, listen, socket, cert, key string
	hosts                             string
	insecure, json, quiet             bool
}

// VerifyEvery is how often a server reads its whole ledger again.
const VerifyEvery = time.Hour

// StopWithin is how long a stopping server waits for requests that are under way.
const StopWithin = 10 * time.Second

func readServeFlags(args []string) (f serveFlags, err error) {
	flags := flag.NewFlagSet("decklogd serve", flag.ContinueOnError)
	flags.StringVar(&f.ledger, "ledger", os.Getenv("DECKLOG_LEDGER"), "the ledger's `URL`")
	flags.StringVar(&f.listen, "listen", cli.ListenDefault, "the `ADDRESS` for HTTP")
	flags.StringVar(&f.socket, "socket", "", "the unix socket's `PATH`")
	flags.StringVar(&f.cert, "tls-cert", "", "the certificate's `FILE`")
	flags.StringVar(&f.key, "tls-key", "", "its key's `FILE`")
	flags.StringVar(&f.hosts, "host", "", "other `NAMES` of this machine, with commas")
	flags.BoolVar(&f.insecure, "insecure", false, "listen without TLS where others may hear it")
	flags.BoolVar(&f.json, "json", false, "say where it listens as JSON")
	flags.BoolVar(&f.quiet, "quiet", false, "log no requests")
	if err := flags.Parse(args); err != nil {
		return f, usageError{err}
	}
	switch {
	case flags.NArg() > 0:
		return f, usageError{fmt.Errorf("%q is one word too many", flags.Arg(0))}
	case (f.cert == "") != (f.key == ""):
		return f, usageError{errors.New("--tls-cert and --tls-key belong together")}
	}
	return f, nil
}

// serving is a server at work.
type serving struct {
	serveFlags
	shown   string // the ledger's address, as it may be printed
	env     *cli.Env
	log     *slog.Logger
	desk    *ops.Ops
	fleet   *ops.Fleet // nil: nobody else has the ledger
	folder  string     // that the ledger, or what this machine has of it, lies in
	tokens  *token.Tokens
	guard   *serve.Guard
	server  *serve.Server
	metrics *metrics.Metrics
	door    *mcp.Door
	stop    chan struct{}
}

// serveLedger serves a ledger until the context ends.
func serveLedger(ctx context.Context, args []string) error {
	f, err := readServeFlags(args)
	if err != nil {
		return err
	}
	s := &serving{serveFlags: f, env: newEnv(), stop: make(chan struct{})}
	level := slog.LevelInfo
	if f.quiet {
		level = slog.LevelWarn
	}
	s.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := s.openLedger(); err != nil {
		return err
	}
	err = s.run(ctx)
	if closing := s.desk.Close(); err == nil {
		err = closing
	}
	return err
}

func (s *serving) openLedger() error {
	if cli.Served(s.ledger) {
		return failure.New("already_served", "serve the file itself: --ledger sqlite:PATH", fmt.Errorf("serve %s: it is served already", s.ledger))
	}
	if esdb.Is(s.ledger) {
		return s.openCluster()
	}
	file, err := surroundings.LedgerFile(s.ledger)
	if err != nil {
		return err
	}
	s.shown = "sqlite:" + file
	if file == "" {
		return failure.New("bad_ledger", "serve a ledger in a file: --ledger sqlite:PATH", errors.New("a ledger in memory cannot be served"))
	}
	s.folder = filepath.Dir(file)
	s.desk, _, err = surroundings.OpenFile(file, s.env, sqlite.Grouped(sqlite.DefaultGroups), sqlite.OnCommit(s.committed))
	if err != nil {
		return err
	}
	s.desk.Hub = ops.NewHub(s.desk.Ledger)
	return nil
}

// committed counts a commit of this process; none before there is anything to count with.
func (s *serving) committed(commands, events int, took time.Duration) {
	if s.metrics != nil {
		s.metrics.Commit(commands, events, took)
	}
}

// openCluster opens a ledger in EventStoreDB. What this machine has of its own,
// the bells, the notes, the tokens and the policy file, lies beside the views.
func (s *serving) openCluster() error {
	address, err := esdb.Parse(s.ledger)
	if err != nil {
		return err
	}
	s.shown, s.folder = address.Shown(), filepath.Dir(address.Views)
	surroundings.Around(s.env, s.folder)
	s.fleet = &ops.Fleet{World: s.env.World, Boot: process.Self().Boot}
	s.env.World.Fleet = s.fleet
	ledger, err := esdb.Open(address, projections.Project,
		esdb.Prepare(ops.Refold), esdb.Hear(s.fleet.Hear),
		esdb.Apply(ops.Rings(func() bell.Bells { return s.env.World.Bells })), esdb.Told(s.away), esdb.OnCommit(s.committed),
		esdb.MirrorWith(sqlite.Grouped(sqlite.DefaultGroups)))
	if err != nil {
		return err
	}
	s.fleet.Behind, s.fleet.Publish = ledger.Stale, ledger.Publish
	s.desk = &ops.Ops{Ledger: ledger, World: s.env.World}
	s.desk.Hub = ops.NewHub(ledger)
	return nil
}

// away logs that the ledger's cluster is, and that it is here again.
func (s *serving) away(why error) {
	if why != nil {
		s.log.Warn("what is shown is stale, and nothing can be appended", "error", why, "fix", failure.Of(why).Fix)
		return
	}
	s.log.Info("the ledger's cluster tells everything again")
}

// untold logs what keeps this machine from telling the others of its sessions, or them
// from being told apart.
func (s *serving) untold(err error) {
	if f := failure.Of(err); err != nil && f.Code == "same_name" {
		s.log.Warn("another machine goes by this one's name", "error", err, "fix", f.Fix)
		return
	}
	if err != nil {
		s.log.Warn("what is seen of the sessions here may not reach the other machines", "error", err, "fix", failure.Of(err).Fix)
		return
	}
	s.log.Info("the other machines are told of the sessions here, and each has a name of its own")
}

// run serves. What it needs beside the ledger is made before anybody is let in.
func (s *serving) run(ctx context.Context) error {
	if _, err := token.MakeMachine(s.folder); err != nil {
		return err
	}
	s.tokens = token.Open(s.folder)
	rules := rules()
	s.metrics = metrics.New(metrics.Config{
		View: s.desk.Ledger.View, Now: s.env.World.Now, Lag: s.desk.Lag, Size: s.size, Routes: slices.Collect(maps.Keys(rules)),
		Version: s.env.Version.Version, Commit: s.env.Version.Commit, Go: s.env.Version.Go,
	})
	shared := ""
	if s.fleet != nil {
		shared = s.env.World.Device
	}
	s.guard = serve.NewGuard(serve.GuardConfig{
		Machine: shared, Tokens: s.tokens, Now: s.env.World.Now, Hosts: strings.FieldsFunc(s.hosts, func(r rune) bool { return r == ',' }), Log: s.log,
		Served: func(method, route string, status int, took time.Duration) {
			s.metrics.Request(route, method, status, took)
		},
	})
	s.server = serve.New(serve.Config{
		Ops: s.desk, Who: serve.Who, Good: s.guard.Good, Log: s.log, Version: s.env.Version.Version, Streams: s.metrics,
	})
	if s.fleet != nil {
		if err := s.fleet.Tell(ctx, s.desk); err != nil {
			s.untold(err)
		}
	}
	s.door = s.mcpDoor()
	listeners, err := s.listenAll()
	if err != nil {
		s.door.Close()
		return err
	}
	handler := s.guard.Around(s.mux(), func(pattern string) serve.Rule { return rules[pattern] })
	// What goes on in the background ends behind the last request, which may need it.
	life, end := context.WithCancel(context.Background())
	defer end()
	var work sync.WaitGroup
	s.background(life, &work)
	failed := make(chan error, len(listeners))
	servers := make([]*http.Server, len(listeners))
	for i, l := range listeners {
		servers[i] = s.guard.Server(handler)
		go func() { failed <- servers[i].Serve(s.guard.Listen(l.Listener, l.secure)) }()
	}
	s.say(listeners)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	close(s.stop)
	s.server.Close()
	closed := make(chan struct{})
	go func() { s.door.Close(); close(closed) }()
	patience, cancel := context.WithTimeout(context.Background(), StopWithin)
	defer cancel()
	for _, server := range servers {
		if closing := server.Shutdown(patience); closing != nil {
			_ = server.Close() // and with the connections their requests end
		}
	}
	<-closed
	s.server.Wait()
	end()
	work.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// background is what goes on while nobody asks.
func (s *serving) background(ctx context.Context, work *sync.WaitGroup) {
	work.Go(func() {
		if err := s.metrics.Follow(ctx, s.desk.Ledger, nil); err != nil {
			s.log.Error("the metrics stand still", "error", err)
		}
	})
	work.Go(func() {
		s.desk.Hub.Run(ctx, func(err error) {
			if err != nil {
				s.log.Error("who waits is not woken, and looks by itself", "error", err)
				return
			}
			s.log.Info("who waits is woken again")
		})
	})
	work.Go(func() { s.audit(ctx) })
	if s.fleet != nil {
		work.Go(func() { s.fleet.Run(ctx, s.desk, s.untold) })
	}
	heard, err := runs.Listen(s.folder)
	if err != nil {
		s.log.Warn("hook runs are not counted", "error", err)
		return
	}
	work.Go(func() { _ = heard.Hear(s.metrics.HookRun, s.metrics.HookStrange) })
	work.Go(func() { <-ctx.Done(); _ = heard.Close() })
}

// audit reads the whole ledger, at the start and every so often.
func (s *serving) audit(ctx context.Context) {
	every := time.NewTicker(VerifyEvery)
	defer every.Stop()
	for {
		audited, err := s.server.Verify(ctx, nil)
		select {
		case <-s.stop: // it was broken off, and says nothing of the ledger
			return
		case <-ctx.Done():
			return
		default:
		}
		now := s.env.World.Now()
		found := serve.Audit{OK: audited.OK && err == nil, Position: audited.Position, Time: now}
		faults := len(audited.Faults)
		switch {
		case err != nil:
			found.Fault = failure.Of(err).Message
		case len(audited.Faults) > 0:
			found.Fault = fmt.Sprintf("position %d: %s", audited.Faults[0].Position, audited.Faults[0].What)
		}
		s.server.Audited(found)
		if !found.OK {
			faults = max(1, faults)
			s.log.Error("the ledger is not as it was written", "fault", found.Fault)
		}
		s.metrics.Verified(faults, now)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *serving) size() (int64, error) {
	stored, is := s.desk.Ledger.(interface {
		Stored() (bytes int64, err error)
	})
	if !is {
		return 0, errors.New("this ledger does not say how large it is")
	}
	return stored.Stored()
}

func (s *serving) mux() *http.ServeMux {
	mux := http.NewServeMux()
	s.server.Register(mux)
	mux.Handle("GET /metrics", s.metrics.Handler())
	mux.Handle(mcpPath, s.door)
	mux.Handle("/", dashboard.New(dashboard.Config{
		Open: s.view, Now: s.env.World.Now, Stop: s.stop,
		Audited: func() (dashboard.Audit, bool) {
			found := s.server.LastAudit()
			if found == nil {
				return dashboard.Audit{}, false
			}
			return dashboard.Audit(*found), true
		},
		Failed: func(r *http.Request, err error) { s.log.Error("failed", "route", r.Pattern, "error", err) },
	}))
	return mux
}

// rules say who gets to which route, by the patterns of all that there are.
func rules() map[string]serve.Rule {
	of := serve.Rules()
	of["GET /v1/openapi.json"] = serve.Rule{Needs: token.Read}
	of[mcpPath] = mcpRule
	// These say how the server is, and nothing of what it holds.
	for _, pattern := range []string{"GET /healthz", "GET /readyz", "GET /metrics"} {
		of[pattern] = serve.Rule{Gate: serve.Near}
	}
	// The dashboard asks for the token itself: without one there is a page with a
	// form, which holds nothing of the ledger.
	of["/"] = serve.Rule{Gate: serve.Open, Form: true, BodyBytesMax: dashboard.FormBytesMax}
	return of
}

// view is the ledger as the holder of a token sees it in the dashboard.
func (s *serving) view(r *http.Request, secret string) (dashboard.Desk, dashboard.Viewer, error) {
	who, fault := s.guard.Check(r, secret)
	if fault != nil {
		return nil, dashboard.Viewer{}, dashboard.ErrToken
	}
	desk := s.server.DeskOf(who)
	viewer := dashboard.Viewer{Name: who.Participant, MayWrite: who.Scope.May(token.Write), Expires: who.Expires}
	if who.OfMachine() {
		status, err := desk.Status(ops.Asker{})
		if err != nil {
			return nil, viewer, err
		}
		viewer.Name = status.Participant
	}
	return desk, viewer, nil
}

// listener is where the server listens.
type listener struct {
	net.Listener
	secure *tls.Config // nil: nothing is encrypted
	url    string
}

func (s *serving) listenAll() (all []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
		}
	}()
	// The socket is tried first: who serves the same ledger already is told of that.
	for _, one := range []struct {
		at     string
		listen func() (listener, error)
	}{{s.socket, s.listenSocket}, {s.listen, s.listenHTTP}} {
		if one.at == "none" {
			continue
		}
		l, err := one.listen()
		if err != nil {
			return all, err
		}
		all = append([]listener{l}, all...)
	}
	if len(all) == 0 {
		return nil, usageError{errors.New("with --listen none and --socket none nobody could reach it")}
	}
	return all, nil
}

func (s *serving) listenHTTP() (listener, error) {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return listener{}, usageError{fmt.Errorf("--listen %q is no address, such as %s", s.listen, cli.ListenDefault)}
	}
	encrypted := s.cert != ""
	if !encrypted && !s.insecure && !loopback(host) {
		return listener{}, failure.New("needs_tls", "give --tls-cert and --tls-key; or, where nobody else can listen, --insecure",
			fmt.Errorf("listen on %s: others may hear it, and tokens are sent in the clear", s.listen))
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return listener{}, failure.New("cannot_listen", "end what listens there, or choose another address: decklog serve --listen 127.0.0.1:0", fmt.Errorf("listen on %s: %w", s.listen, err))
	}
	scheme, secure := "http://", (*tls.Config)(nil)
	if encrypted {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			_ = l.Close()
			return listener{}, failure.New("bad_certificate", "give the certificate and its key as PEM files", fmt.Errorf("read %s and %s: %w", s.cert, s.key, err))
		}
		scheme = "https://"
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	return listener{l, secure, scheme + l.Addr().String()}, nil
}

// loopback says whether a host is this machine and nobody else can listen.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// listenSocket listens on the unix socket.
func (s *serving) listenSocket() (listener, error) {
	path := s.socket
	if path == "" {
		path = filepath.Join(s.folder, cli.SocketName)
	}
	l, err := socket.Listen(path)
	switch {
	case errors.Is(err, socket.ErrInUse):
		return listener{}, failure.New("already_served", "use that one: --ledger unix:"+path+"; or give this one a socket of its own: --socket PATH, or none",
			fmt.Errorf("listen on %s: another decklog serve listens there", path))
	case err != nil:
		return listener{}, failure.New("cannot_listen", "choose a path in a folder of yours: --socket PATH, or none", fmt.Errorf("listen on %s: %w", path, err))
	}
	return listener{l, nil, "unix:" + path}, nil
}

// say tells where it listens, on standard output, as soon as it does.
func (s *serving) say(listeners []listener) {
	if s.json {
		at := map[string]any{"ledger": s.shown, "http": "", "socket": ""}
		for _, l := range listeners {
			if strings.HasPrefix(l.url, "unix:") {
				at["socket"] = l.url
			} else {
				at["http"] = l.url
			}
		}
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"serving": at})
		return
	}
	fmt.Printf("serving %s%s\n", strings.TrimPrefix(s.shown, "sqlite:"), s.fresh())
	for _, l := range listeners {
		fmt.Printf("  %s\n", l.url)
	}
	fmt.Printf("The dashboard asks for a token: decklog token create --for @%s, or the one in %s\n",
		s.person(), filepath.Join(s.folder, token.MachineFileName))
}

// fresh says that there is nothing in the ledger yet: its path may have been mistyped.
func (s *serving) fresh() string {
	if end, err := s.desk.End(); err == nil && end == 0 {
		return ", a new ledger"
	}
	return ""
}

// person is a name that a token can be made for.
func (s *serving) person() string {
	if status, err := s.server.DeskOf(token.Token{Participant: token.Machine}).Status(ops.Asker{}); err == nil && status.Participant.Name() != "" {
		return status.Participant.Name()
	}
	return "NAME"
}
