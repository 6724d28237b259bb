package cli

import (
	"flag"
	"strings"
)

const (
	// ListenDefault is where `decklog serve` listens for HTTP.
	ListenDefault = "127.0.0.1:7717"
	// SocketName is what its socket beside the ledger is called.
	SocketName = "decklog.sock"
)

func servesHTTP() *Command {
	return &Command{
		Name: "serve", Group: "delivery", Usage: "[--listen ADDR] [--socket PATH] [--tls-cert FILE --tls-key FILE] [--host NAMES] [--insecure] [--quiet]",
		Short: "serve the ledger over HTTP and a unix socket, with a dashboard",
		Long: `Serves the ledger for as long as it runs: the operations under /v1/ (described by
/v1/openapi.json), events as they come at /v1/events, an MCP server at /mcp, /metrics for
Prometheus, /healthz and /readyz, and at / a dashboard. Others go on using the file itself
meanwhile.

Everything under /v1/ and /mcp needs a token, which names who acts: decklog token create.
Whoever can read the ledger's folder needs none for the socket: there lies the token of this
machine, serve.token. It listens on this machine alone, unless --listen says otherwise; then
it wants a certificate, or --insecure where nobody else can listen. Other names than those
of this machine's loopback, by which browsers reach it, are named with --host.

Any command reaches it with --ledger unix:PATH or --ledger http://HOST:PORT (the token in
DECKLOG_TOKEN), and works as on the file.

Several machines share a ledger in EventStoreDB or KurrentDB: each runs a serve of its own,
with --ledger 'esdb://HOST:2113', and what it needs of its own lies in a folder beside its
views. Such an address is the connection string of the cluster's own clients, also
esdb+discover://HOST and esdb://HOST,HOST,HOST, with their settings behind a question mark:
tls=false, tlsCaFile=FILE for an authority of your own, tlsVerifyCert, userCertFile and
userKeyFile, nodePreference, and so on; and two of decklog's own: prefix=team. has the
ledger's streams begin otherwise than with dl., so that several lie in one cluster, and
views=FILE puts the views elsewhere. Whoever lists this machine's processes sees an address
on a command line, its password too: in DECKLOG_LEDGER it is not seen.

Sessions of one machine reach those of another as their own. Where machines have the
same host name, as containers may, each is given another in DECKLOG_DEVICE, for the serve
and for all that runs there. Who was told a position by one may ask another for a view that
is no older, with --at-least.

What the rules of one thread, mailbox, seat or session say holds across machines. Duplicates,
rates and full mailboxes are decided on what a machine knows: each other machine may let one
more through in the same moment, and so may sends that are on their way from other sessions
of the same machine. Whether a session runs, is in a turn, and was seen when, is seen on the
machine that it joined on, which tells the others: of processes within 5 s, of the rest every
30 s. Evidence of another machine's session names that machine and says how old it is. Where
the machine has told nothing for longer than it promised, 2 to 16 minutes, its sessions count
as live for 12 h from when they were last known of.

It ends at SIGTERM or Ctrl-C: streams are told, and what is under way is finished first.`,
		Examples: []string{
			`decklog serve`,
			`decklog serve --listen 127.0.0.1:0 --json                 # a free port, and where it is as JSON`,
			`decklog serve --listen 0.0.0.0:7717 --tls-cert cert.pem --tls-key key.pem --host deck.local`,
			`DECKLOG_LEDGER='esdb+discover://ops:PASSWORD@cluster.example:2113' decklog serve`,
			`decklog --ledger unix:$HOME/.local/share/decklog/decklog.sock peers`,
		},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("listen", ListenDefault, "listen for HTTP at `ADDRESS`, or none")
			r.text("socket", "", "listen on the unix socket at `PATH`, or none (default: "+SocketName+" beside the ledger)")
			r.text("tls-cert", "", "the certificate's `FILE`")
			r.text("tls-key", "", "its key's `FILE`")
			r.text("host", "", "other `NAMES` by which it is reached, with commas between them")
			r.toggle("insecure", "listen without TLS where others may hear it")
			r.toggle("quiet", "log no requests")
		},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if listen := r.str("listen"); listen != "none" && !strings.Contains(listen, ":") {
				return misused("--listen %q is no address, such as %s, and not none", r.str("listen"), ListenDefault)
			}
			if r.str("listen") == "none" && r.str("socket") == "none" {
				return misused("with --listen none and --socket none nobody could reach it")
			}
			if (r.str("tls-cert") == "") != (r.str("tls-key") == "") {
				return misused("--tls-cert and --tls-key belong together")
			}
			return r.daemon("serve", "ledger", "json", "listen", "socket", "tls-cert", "tls-key", "host", "insecure", "quiet")
		},
	}
}

// Served says whether the ledger at an address is one that a `decklog serve` has.
func Served(url string) bool {
	scheme, rest, _ := strings.Cut(url, ":")
	return (scheme == "unix" || scheme == "http" || scheme == "https") && rest != ""
}

// daemon becomes the program that holds what is heavy, with the flags of these names.
func (r *run) daemon(command string, flags ...string) error {
	return r.become(append([]string{command}, r.given(flags...)...))
}

// becomes is the same for a command that names its ledgers itself.
func (r *run) becomes(command string) error {
	if r.given("ledger", "as", "command") != nil {
		return misused("--ledger, --as and --command are not for %s, which asks only the addresses that it is given", command)
	}
	return r.become(append(append([]string{command}, r.given("json")...), append([]string{"--"}, r.args...)...))
}

func (r *run) become(args []string) error {
	if err := r.Daemon(args...); err != nil {
		return Failed("no_daemon", "put decklogd beside decklog, or on PATH: `make build` makes both", err)
	}
	return nil
}
