package cli

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"decklog/internal/doctor"
	"decklog/internal/failure"
	"decklog/internal/install"
	"decklog/internal/kit"
	"decklog/internal/ops"
)

// doctorPatience is how long a ledger that others hold is waited for.
const doctorPatience = 3 * time.Second

func doctors() *Command {
	return &Command{
		Name: "doctor", Group: "set-up", Usage: "",
		Short: "is all well? harnesses, ledger, policy, clock; and what to do",
		Long: `Looks at everything that decklog depends on: its programs; each harness, whether it is
found, installed as ` + "`decklog install`" + ` would, and trusted, and when a hook of its last ran,
delivered and went wrong; who asks; the ledger's file and the end of its history; the
policy; the clock. Each line says ok, warning or fault, and what to do. It takes a few
seconds and changes nothing. Exit code 0 when all is well, else 1. For the whole history
see ` + "`decklog verify`" + `.

The files of a ledger that is served are looked at with the ledger's own address, on the
server's machine. With a cluster's address those that this machine has of it are looked
at, and the rest is asked of the decklog serve that has them.`,
		Examples: []string{`decklog doctor`, `decklog doctor --json`, `decklog doctor --ledger 'esdb://cluster.example:2113?prefix=dl.'`},
		Flags:    func(*flag.FlagSet, *run) {},
		Run:      (*run).doctor,
	}
}

func (r *run) doctor() error {
	if err := r.want(0, 0, ""); err != nil {
		return err
	}
	if clustered(r.address()) && r.Views == nil {
		return r.become(append([]string{"cli"}, r.Args...))
	}
	var file, cluster string
	var fileErr error
	if clustered(r.address()) {
		if file, cluster, fileErr = r.Views(r.address()); fileErr == nil {
			// Only serve opens a cluster. The one of this machine listens beside its views.
			r.url = "unix:" + filepath.Join(filepath.Dir(file), SocketName)
		}
	} else {
		file, fileErr = r.LedgerFile(r.address())
	}
	place, err := r.doctorPlace()
	if err != nil {
		return err
	}
	report := doctor.Examine(context.Background(), doctor.Patient{
		Place: place, Environ: r.Environ, Now: r.World.Now, Version: r.Version.Version, Commit: r.Version.Commit,
		LedgerFile: file, LedgerErr: fileErr, Served: r.served(), Cluster: cluster, PolicyName: PolicyName, Asker: r.asker(),
		Explain: func(err error) (string, string) {
			f := failure.Of(err)
			if cluster != "" && f.Code == "no_server" {
				return f.Code + ": " + f.Message, "start it on this machine, with the same address: decklog serve --ledger 'esdb://...'"
			}
			return f.Message, f.Fix
		},
		Open: func() (ops.Operations, doctor.Notes, error) {
			r.Patience = doctorPatience
			err := r.open()
			return r.ops, r.beside.Notes, err
		},
	})
	if !report.OK {
		r.code = ExitFailed
	}
	return r.show(report, nil, nil, func() error { return r.write([]byte(sayReport(report))) })
}

// clustered says whether the ledger at an address lies in a cluster.
func clustered(url string) bool {
	return strings.HasPrefix(url, "esdb://") || strings.HasPrefix(url, "esdb+discover://")
}

// served is the ledger's address where a `decklog serve` has it; else empty.
func (r *run) served() string {
	if url := r.address(); Served(url) {
		return url
	}
	return ""
}

// doctorPlace is the user's own configuration.
func (r *run) doctorPlace() (install.Place, error) {
	folder, _ := r.ledgerFolder() // what is wrong with it is told for itself
	return install.Place{
		Home: r.Environ("HOME"), Environ: r.Environ, Ledger: folder, Version: r.Version.Version, Skill: kit.Skill(), OpencodePlugin: kit.OpencodePlugin(),
	}, nil
}

func sayReport(report doctor.Report) string {
	var b strings.Builder
	about := ""
	for _, l := range report.Lines {
		if l.About != about {
			about = l.About
			fmt.Fprintf(&b, "%s\n", about)
		}
		fmt.Fprintf(&b, "  %-8s %s: %s\n", l.Level, l.Check, l.Says)
		if l.Fix != "" {
			fmt.Fprintf(&b, "           Fix: %s\n", l.Fix)
		}
	}
	if report.OK {
		b.WriteString("doctor: all is well\n")
	} else {
		fmt.Fprintf(&b, "doctor: %s, %s\n", plural(report.Faults, "fault"), plural(report.Warnings, "warning"))
	}
	return b.String()
}
