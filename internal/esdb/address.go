package esdb

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/internal/failure"
)

// PrefixDefault is how the names of decklog's streams begin in a cluster when
// nothing else is said.
const PrefixDefault = "dl."

// PrefixBytesMax bounds a prefix, its dot included.
const PrefixBytesMax = 64

// Address is where a ledger lies: a connection string as the cluster's clients
// take it, with two settings of decklog's own.
//
//	esdb+discover://ops:secret@cluster.example:2113?prefix=team.&views=views.db
type Address struct {
	Connection string // what the client is given
	Prefix     string // how the names of the streams begin
	Views      string // the mirror's file
}

// settings are what a connection string may set, besides decklog's own. The
// client passes over what it does not know, so that a slip would go unseen.
var settings = []string{
	"tls", "tlsverifycert", "tlscafile", "usercertfile", "userkeyfile", "discoveryinterval", "gossiptimeout", "maxdiscoverattempts",
	"nodepreference", "keepaliveinterval", "keepalivetimeout", "defaultdeadline", "connectionname",
}

// A prefix must not be one of the cluster's own, and is written without escapes
// wherever it is shown. It ends with its only dot, so that none is the beginning of
// another: a ledger under that would have the other's events.
var prefixForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*\.$`)

// Is says whether an address is one of this kind of ledger.
func Is(address string) bool {
	return strings.HasPrefix(address, "esdb:") || strings.HasPrefix(address, "esdb+discover:")
}

// Parse reads an address. What is wrong with one is said with a code, what to do
// and an example.
func Parse(address string) (a Address, err error) {
	defer func() {
		if err != nil {
			err = failure.New("bad_ledger", "write the cluster's connection string, for instance --ledger 'esdb://cluster.example:2113?tls=true&prefix=dl.'",
				fmt.Errorf("open ledger: %w", err))
		}
	}()
	if !strings.HasPrefix(address, "esdb://") && !strings.HasPrefix(address, "esdb+discover://") {
		return a, errors.New("the address begins neither with esdb:// nor with esdb+discover://")
	}
	hosts, query, _ := strings.Cut(address, "?")
	set, err := url.ParseQuery(query)
	if err != nil {
		return a, fmt.Errorf("the settings after the question mark: %w", err)
	}
	a.Prefix = PrefixDefault
	if set.Has("prefix") {
		a.Prefix = strings.TrimSuffix(set.Get("prefix"), ".") + "."
	}
	if a.Views = set.Get("views"); set.Has("views") && a.Views == "" {
		return a, errors.New("views= names no file")
	}
	set.Del("prefix")
	set.Del("views")
	for key, values := range set {
		if !slices.Contains(settings, strings.ToLower(key)) || len(values) != 1 {
			return a, fmt.Errorf("the setting %q is unknown, or there twice; there are prefix, views, and what the cluster's clients know: %s", key, strings.Join(settings, ", "))
		}
	}
	if err := placesIn(hosts); err != nil {
		return a, err
	}
	if !prefixForm.MatchString(a.Prefix) || len(a.Prefix) > PrefixBytesMax {
		return a, fmt.Errorf("the prefix %q is not 2 to %d bytes of letters, digits, hyphens and underscores that begin with a letter or a digit, and one dot at their end", a.Prefix, PrefixBytesMax)
	}
	a.Connection = hosts
	if len(set) > 0 {
		a.Connection += "?" + set.Encode()
	}
	if _, err := configure(a.Connection); err != nil {
		return a, err
	}
	if a.Views == "" {
		a.Views, err = viewsDefault(hosts, a.Prefix)
		return a, err
	}
	if a.Views, err = filepath.Abs(a.Views); err != nil {
		return a, err
	}
	if info, err := os.Stat(a.Views); err == nil && info.IsDir() {
		return a, fmt.Errorf("views=%s is a folder: name the file, which may not be there yet", a.Views)
	}
	return a, nil
}

// placesIn says what is wrong with the hosts of an address: the client takes what it
// can never reach.
func placesIn(address string) error {
	where := Address{Connection: address}.hosts()
	for place := range strings.SplitSeq(where, ",") {
		host, port, err := net.SplitHostPort(place)
		var wrong *net.AddrError
		if errors.As(err, &wrong) && wrong.Err == "missing port in address" {
			host, port, err = place, "2113", nil
		}
		n, bad := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || bad != nil || n == 0:
			return fmt.Errorf("%q is no host and port, of 1 to 65535", place)
		case host == "":
			return fmt.Errorf("%q names no host", place)
		case strings.ContainsAny(host, "/#"):
			return fmt.Errorf("%q is no host", host)
		}
	}
	return nil
}

// viewsDefault is a file in the user's data folder, another for each ledger.
// Who connects as whom does not make it another.
func viewsDefault(hosts, prefix string) (string, error) {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the user's data folder, or say where the views go with views=PATH: %w", err)
		}
		data = filepath.Join(home, ".local", "share")
	}
	sum := sha256.Sum256([]byte(Address{Connection: hosts}.hosts() + "\n" + prefix))
	return filepath.Join(data, "decklog", "esdb-"+hex.EncodeToString(sum[:6]), "views.db"), nil
}

// hosts is where the cluster is said to be, whoever connects.
func (a Address) hosts() string {
	_, where, _ := strings.Cut(a.Connection, "://")
	where, _, _ = strings.Cut(where, "?")
	if at := strings.LastIndex(where, "@"); at >= 0 {
		where = where[at+1:]
	}
	return strings.TrimRight(where, "/")
}

// Shown is the address without its password, as it may be printed.
func (a Address) Shown() string {
	shown := a.Connection
	scheme, rest, _ := strings.Cut(shown, "://")
	hosts, settings, there := strings.Cut(rest, "?")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, _, _ := strings.Cut(hosts[:at], ":")
		hosts = user + hosts[at:]
	}
	shown = scheme + "://" + hosts
	if there {
		shown += "?" + settings + "&prefix=" + a.Prefix
	} else {
		shown += "?prefix=" + a.Prefix
	}
	return shown
}

// configure reads a connection string as the client does, and sets what the
// fence relies on.
func configure(connection string) (*client.Configuration, error) {
	c, err := client.ParseConnectionString(connection)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	if c.DefaultDeadline != nil && *c.DefaultDeadline <= 0 {
		// The client takes it for 0: every append would be late at once.
		return nil, errors.New("the setting defaultDeadline is no number of milliseconds above 0")
	}
	fenced(c)
	return c, nil
}

// withoutSecrets is an error that may quote the connection string, without what
// could be a password.
func withoutSecrets(err error) error {
	var in *url.Error
	if errors.As(err, &in) {
		return fmt.Errorf("the connection string: %w", in.Err)
	}
	return fmt.Errorf("the connection string: %w", err)
}
