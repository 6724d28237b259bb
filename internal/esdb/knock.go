package esdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

// knockMax is how long a server may take to take a connection.
const knockMax = 2 * time.Second

// errMute says that something takes connections that is perhaps no EventStoreDB.
var errMute = errors.New("something takes connections there, and does not answer as an EventStoreDB does")

// Knock says, before a client begins to try for ever and in silence, why none of the
// servers at an address can be connected to; nil when one can. That one answers is not
// found out.
func Knock(ctx context.Context, a Address) error {
	if err := knockAt(ctx, a.Connection); err != nil {
		return unreachable(about(a.Server(), err))
	}
	return nil
}

// obstacle is what is in the way of a connection, where that can be said better than by
// the error that the client gave up with.
func (f *fence) obstacle(why error) error {
	if !errors.Is(why, context.DeadlineExceeded) && kindOf(why) != client.ErrorCodeDeadlineExceeded {
		return why
	}
	ctx, cancel := context.WithTimeout(f.life, knockMax)
	defer cancel()
	if err := knockAt(ctx, f.connection); err != nil {
		return err
	}
	return errMute
}

func knockAt(ctx context.Context, connection string) error {
	c, err := configure(connection)
	if err != nil {
		return err
	}
	places := []string{c.Address}
	if len(c.GossipSeeds) > 0 {
		places = nil
		for _, seed := range c.GossipSeeds {
			places = append(places, net.JoinHostPort(seed.Host, strconv.Itoa(int(seed.Port))))
		}
	}
	var all []error
	for _, place := range places {
		err := knock(ctx, c, place)
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

func knock(ctx context.Context, c *client.Configuration, place string) error {
	ctx, cancel := context.WithTimeout(ctx, knockMax)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", place)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, _, _ := net.SplitHostPort(place)
	hello := &tls.Config{ServerName: host, RootCAs: c.RootCAs, NextProtos: []string{"h2"}, InsecureSkipVerify: c.SkipCertificateVerification}
	if c.DisableTLS {
		hello = &tls.Config{InsecureSkipVerify: true} // it is only asked whether it speaks TLS
	}
	err = tls.Client(conn, hello).HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	switch {
	case c.DisableTLS && err == nil:
		return fmt.Errorf("%s speaks TLS, and the address says tls=false", place)
	case c.DisableTLS:
		return nil
	case errors.As(err, &plain):
		return fmt.Errorf("%s does not speak TLS, and the address does not say tls=false", place)
	case err != nil:
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}
