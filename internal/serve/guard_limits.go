package serve

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"
)

// Limits bound what callers may make the server do. A value of 0 is the default
// that stands beside it.
type Limits struct {
	HeaderBytesMax   int           // 16 KiB
	BodyBytesMax     int64         // 17 MiB: what the command line reads of a body at most, and what is around it
	HeaderMax        time.Duration // 5 s: until the headers are there
	BodyMax          time.Duration // 30 s: until the body is there
	WriteMax         time.Duration // 60 s: until each part of an answer is taken, unless its handler is less patient
	IdleMax          time.Duration // 2 min: between two requests on a connection
	ConnectionsMax   int           // 16,384, and fewer where the process may open fewer files
	RequestsPerToken int           // 128 at once; the machine's own token has no such bound
	FailuresMax      int           // 20 bad tokens of one address; they are forgotten one every FailureEvery
	FailureEvery     time.Duration // 3 s
	LargeBodies      int           // 8 bodies above LargeBytes are read at once
}

// LargeBytes is from where on a body is large.
const LargeBytes = 1 << 20

func (l Limits) orDefaults() Limits {
	l.HeaderBytesMax = cmp.Or(l.HeaderBytesMax, 16<<10)
	l.BodyBytesMax = cmp.Or(l.BodyBytesMax, 17<<20)
	l.HeaderMax = cmp.Or(l.HeaderMax, 5*time.Second)
	l.BodyMax = cmp.Or(l.BodyMax, 30*time.Second)
	l.WriteMax = cmp.Or(l.WriteMax, time.Minute)
	l.IdleMax = cmp.Or(l.IdleMax, 2*time.Minute)
	l.ConnectionsMax = cmp.Or(l.ConnectionsMax, 16<<10)
	l.RequestsPerToken = cmp.Or(l.RequestsPerToken, 128)
	l.FailuresMax = cmp.Or(l.FailuresMax, 20)
	l.FailureEvery = cmp.Or(l.FailureEvery, 3*time.Second)
	l.LargeBodies = cmp.Or(l.LargeBodies, 8)
	return l
}

// Server is an HTTP server with the guard's limits.
func (g *Guard) Server(h http.Handler) *http.Server {
	l := g.config.Limits
	return &http.Server{
		Handler: h, ReadHeaderTimeout: l.HeaderMax, WriteTimeout: l.WriteMax, IdleTimeout: l.IdleMax, MaxHeaderBytes: l.HeaderBytesMax,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(connectionLog{g.log}, "", 0),
	}
}

// connectionLog takes what the standard library says of connections that went
// wrong. Callers bring it about, so it is nothing to be alarmed at.
type connectionLog struct{ *slog.Logger }

func (c connectionLog) Write(line []byte) (int, error) {
	const most = 300
	c.Debug("connection", "says", string(line[:min(len(line), most)]))
	return len(line), nil
}

// bound sets the bounds of a request that is let through: of its body, and of how
// long it may take.
func (g *Guard) bound(w *answer, r *http.Request, asks Rule) *Fault {
	control := http.NewResponseController(w.ResponseWriter)
	_ = control.SetWriteDeadline(time.Time{}) // an answer may take long; each write of it gets its own
	if r.ContentLength == 0 {
		return nil
	}
	most := asks.BodyBytesMax
	if most == 0 {
		most = g.config.Limits.BodyBytesMax
	}
	if r.ContentLength > most {
		return bodyTooLarge(most)
	}
	if !looks(r.Method) {
		want := "application/json"
		if asks.Form {
			want = "application/x-www-form-urlencoded"
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != want || r.Header.Get("Content-Encoding") != "" {
			return notJSON(asks.Form)
		}
	}
	_ = control.SetReadDeadline(time.Now().Add(g.config.Limits.BodyMax))
	r.Body = &body{
		ReadCloser: http.MaxBytesReader(w.ResponseWriter, r.Body, most), large: g.large,
		read: func() { _ = control.SetReadDeadline(time.Time{}) },
	}
	return nil
}

// body is a request's, which has a deadline until it was read to its end: from
// then on the connection is only listened to for the caller to go away, and that
// may take as long as the answer does. One that did not come to its end keeps the
// deadline, since the server still tries to pass over what is left of it.
type body struct {
	io.ReadCloser
	read  func()
	large chan struct{}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && b.read != nil {
		b.read()
		b.read = nil
	}
	return n, err
}

// ReadBody reads a request's body to its end. Of large ones only a few are read
// at once, so that callers cannot fill the memory.
func ReadBody(r *http.Request) ([]byte, *Fault) {
	b, err := io.ReadAll(io.LimitReader(r.Body, LargeBytes))
	if err != nil {
		return nil, bodyFault(err)
	}
	if len(b) < LargeBytes {
		return b, nil
	}
	if from, is := r.Body.(*body); is {
		select {
		case from.large <- struct{}{}:
			defer func() { <-from.large }()
		default:
			return nil, tooManyLarge()
		}
	}
	rest, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, bodyFault(err)
	}
	return append(b, rest...), nil
}

func bodyFault(err error) *Fault {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return bodyTooLarge(large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slowBody()
	}
	return cutBody()
}

// lingers is how long a caller who was refused may go on sending, so that it
// reads why instead of a broken connection.
const lingers = time.Second

// refuse answers with a fault. Whatever of the body is still to come is not
// waited for: the connection is closed.
func (g *Guard) refuse(w *answer, r *http.Request, f *Fault) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(lingers))
	}
	f.write(w, r)
}

// answer is what a handler writes to. It keeps what is told of it, and gives each
// write its deadline, until the handler sets some of its own.
type answer struct {
	http.ResponseWriter
	limits *Limits
	own    bool // the handler sets the deadlines
	status int  // 0: nothing was written
	bytes  int64
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// SetWriteDeadline is the handler's, by [http.ResponseController].
func (a *answer) SetWriteDeadline(t time.Time) error {
	a.own = true
	return http.NewResponseController(a.ResponseWriter).SetWriteDeadline(t)
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
		a.hurry()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begin()
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Flush sends what was written.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError sends what was written, and says what became of it.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *answer) begin() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.hurry()
}

func (a *answer) hurry() {
	if !a.own {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.limits.WriteMax))
	}
}

// failures counts the bad tokens of each address: for each it keeps the moment at
// which they will all be forgotten.
type failures struct {
	mu  sync.Mutex
	out map[netip.Prefix]time.Time
}

// failuresKept bounds how many addresses are kept apart; all others count as one.
const failuresKept = 4096

// count counts a bad token, and says how long the address has to wait before its
// next one is looked at as others are; 0: not at all.
func (f *failures) count(from string, now time.Time, l *Limits) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out == nil {
		f.out = map[netip.Prefix]time.Time{}
	}
	key := network(from)
	if _, known := f.out[key]; !known && len(f.out) >= failuresKept {
		for k, until := range f.out {
			if !until.After(now) {
				delete(f.out, k)
			}
		}
		if len(f.out) >= failuresKept {
			key = netip.Prefix{}
		}
	}
	until := f.out[key]
	if until.Before(now) {
		until = now
	}
	until = until.Add(l.FailureEvery)
	wait := until.Sub(now) - time.Duration(l.FailuresMax)*l.FailureEvery
	if wait > 0 {
		return wait // it is not counted any more: who goes on trying is not kept out for longer
	}
	f.out[key] = until
	return 0
}

// network is what one caller can be expected to have of addresses: of IPv6 a /64.
func network(from string) netip.Prefix {
	ip, err := netip.ParseAddr(from)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Listen bounds how many connections are open at once, of all listeners of the
// guard together. Who comes while there are too many is told so and sent away,
// and never left hanging. With a configuration TLS is spoken on this one, and
// then nothing can be told: the bound is below the encryption, which costs.
func (g *Guard) Listen(l net.Listener, secure *tls.Config) net.Listener {
	b := &bounded{Listener: l, encrypted: secure != nil, room: g.room, told: make(chan struct{}, toldMax)}
	if secure != nil {
		return tls.NewListener(b, secure)
	}
	return b
}

// toldMax bounds how many who come too late are waited for at once, until they
// have read that they do; others are told and not waited for.
const toldMax = 64

type bounded struct {
	net.Listener
	encrypted bool
	room      chan struct{}
	told      chan struct{}
	telling   sync.WaitGroup
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.room <- struct{}{}:
			return &counted{Conn: c, leave: sync.OnceFunc(func() { <-b.room })}, nil
		default:
			b.sendAway(c)
		}
	}
}

// Close ends the listener. It waits for those who are just sent away, which takes
// no longer than they may linger.
func (b *bounded) Close() error {
	err := b.Listener.Close()
	b.telling.Wait()
	return err
}

const (
	fullSays   = `{"error":{"code":"busy","message":"too many connections are open","fix":"try again in a second, and keep connections open instead of making new ones"}}` + "\n"
	fullAnswer = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "
)

func (b *bounded) sendAway(c net.Conn) {
	if b.encrypted {
		c.Close()
		return
	}
	// Nothing was sent on this connection before, so this does not wait for anybody.
	_ = c.SetDeadline(time.Now().Add(lingers))
	_, err := io.WriteString(c, fullAnswer+strconv.Itoa(len(fullSays))+"\r\n\r\n"+fullSays)
	half, is := c.(closesWriting)
	if err != nil || !is || half.CloseWrite() != nil {
		c.Close()
		return
	}
	select {
	case b.told <- struct{}{}:
	default:
		c.Close()
		return
	}
	b.telling.Go(func() {
		defer func() { <-b.told }()
		defer c.Close()
		// Closed with something unread, the connection would break before this is read.
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10))
	})
}

// counted is a connection that leaves room once it is closed.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// closesWriting is what TCP and unix sockets can.
type closesWriting interface{ CloseWrite() error }

// CloseWrite ends one half of the connection, as the server does before it hangs
// up on somebody who still sends.
func (c *counted) CloseWrite() error {
	if half, is := c.Conn.(closesWriting); is {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
