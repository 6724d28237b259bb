package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/cli"
	"decklog/internal/esdb"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/internal/transfer"
	"decklog/projections"
)

// copyLedger copies one ledger into another.
func copyLedger(ctx context.Context, args []string) error {
	args, asJSON, err := readAddresses("copy", args, 2)
	if err != nil {
		return err
	}
	defer secondEnds(ctx)()
	m := newMeter()
	report, err := copyFromTo(ctx, args[0], args[1], m)
	m.done()
	if err != nil {
		return err
	}
	if err := say(report, report.Text, asJSON); err != nil {
		return err
	}
	if !report.OK {
		return errSaid
	}
	return nil
}

func copyFromTo(ctx context.Context, from, to string, m *meter) (report transfer.Report, err error) {
	defer func() {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) && failure.Of(err).Code != "interrupted" {
			err = failure.New("interrupted", "run the same copy again", fmt.Errorf("copy %s: broken off before anything was copied", from))
		}
	}()
	source, err := findEnd(from)
	if err != nil {
		return report, err
	}
	target, err := findEnd(to)
	if err != nil {
		return report, err
	}
	if source.same(target) {
		return report, sameLedger(source.shown)
	}
	if source.file != "" {
		// To open it would make it.
		if _, err := os.Stat(source.file); errors.Is(err, os.ErrNotExist) {
			return report, failure.New("no_ledger", "check the path: decklog copy sqlite:PATH TO", fmt.Errorf("copy %s: there is no such file", source.shown))
		}
	}
	if err := source.open(ctx, m); err != nil {
		return report, named("copy from", source, err)
	}
	defer func() { err = errors.Join(err, source.close(err)) }()
	if err := source.holds(); err != nil {
		return report, err
	}
	if err := target.open(ctx, m); err != nil {
		if failure.Of(err).Code == "foreign_event" || target.file != "" && errors.Is(err, events.ErrDamaged) {
			err = failure.New("not_empty", "copy into an empty ledger: a file that is not there yet, such as sqlite:new.db, or a prefix that nothing was sent to, such as esdb://HOST:2113?prefix=new.; nothing was written", err)
		}
		return report, named("copy into", target, err)
	}
	defer func() { err = errors.Join(err, target.close(err)) }()
	if err := apart(ctx, source, target); err != nil {
		return report, err
	}
	c := transfer.Copy{From: source.ledger, To: target.ledger, FromName: source.shown, ToName: target.shown, Progress: m.progress}
	report, err = c.Run(ctx)
	if err == nil && target.file != "" {
		err = target.ring()
	}
	return report, err
}

// ring rings the bells beside a ledger in a file, and forgets whom its policy ignores:
// what lies there may be of another ledger in the same folder. Of one in a cluster
// serve does that.
func (e *end) ring() error {
	bells := bell.Beside(filepath.Dir(e.file))
	if err := bells.Ignore(nil); err != nil {
		return fmt.Errorf("forget the ignored directories beside %s: %w", e.shown, err)
	}
	return e.ledger.View(func(r events.Reader) error {
		s := projections.On(r.Rows())
		for _, session := range s.LiveSessions() {
			if err := bells.Ring(string(session.ID)); err != nil {
				return fmt.Errorf("ring the bell of session %s beside %s: %w", session.ID, e.shown, err)
			}
		}
		return s.Err()
	})
}

// holds refuses a ledger in a cluster that is not there: whatever the prefix, it opens.
func (e *end) holds() error {
	if e.address == nil {
		return nil
	}
	return e.ledger.View(func(r events.Reader) error {
		end, err := r.End()
		if err == nil && end == 0 {
			err = failure.New("no_ledger", "check the prefix, and the cluster: decklog copy 'esdb://HOST:2113?prefix=dl.' TO", fmt.Errorf("copy %s: nothing is there", e.shown))
		}
		return err
	})
}

// named says of an error which of the two ledgers it is about.
func named(doing string, e *end, err error) error {
	f := failure.Of(err)
	return failure.New(f.Code, f.Fix, fmt.Errorf("%s %s: %w", doing, e.shown, err))
}

func sameLedger(shown string) error {
	return failure.New("same_ledger", "name another one to copy into, for instance sqlite:copy.db", fmt.Errorf("copy %s: FROM and TO are the same ledger", shown))
}

// end is a ledger from or to which is copied.
type end struct {
	shown   string
	file    string        // of one in a file
	address *esdb.Address // of one in a cluster
	own     string        // the folder of this copy's own mirror; empty: the address names one, which stays
	ledger  transfer.Target
}

// findEnd reads an address, and opens nothing.
func findEnd(address string) (*end, error) {
	if esdb.Is(address) {
		a, err := esdb.Parse(address)
		if err != nil {
			return nil, err
		}
		e := &end{shown: a.Shown(), address: &a}
		_, query, _ := strings.Cut(address, "?")
		if set, err := url.ParseQuery(query); err == nil && !set.Has("views") {
			// Beside those of a serve on this machine, which may be in use. What a copy that
			// was broken off has read is found here by the next.
			e.own = filepath.Join(filepath.Dir(a.Views), "copy")
			a.Views = filepath.Join(e.own, "views.db")
		}
		return e, nil
	}
	if cli.Served(address) {
		return nil, failure.New("not_supported", "name the file or the cluster that is served: decklog copy sqlite:PATH TO; others may use it meanwhile",
			fmt.Errorf("copy %s: what a decklog serve answers with is not the whole ledger", address))
	}
	var err error
	e := &end{}
	if strings.HasPrefix(address, "sqlite:") {
		e.file, err = surroundings.LedgerFile(address)
	}
	if err != nil || e.file == "" {
		return nil, failure.New("bad_ledger", "name a file or a cluster: decklog copy sqlite:ledger.db 'esdb://localhost:2113?tls=false&prefix=dl.'",
			fmt.Errorf("copy: %.80q is no address of a ledger that can be copied", address))
	}
	if real, err := filepath.EvalSymlinks(e.file); err == nil {
		e.file = real
	}
	e.shown = "sqlite:" + e.file
	return e, nil
}

// same says whether two addresses are of one ledger, as far as they show it.
func (e *end) same(other *end) bool {
	if e.address != nil && other.address != nil {
		return e.address.Prefix == other.address.Prefix && e.address.Server() == other.address.Server()
	}
	if e.file == "" || other.file == "" {
		return false
	}
	mine, err := os.Stat(e.file)
	its, err2 := os.Stat(other.file)
	return e.file == other.file || err == nil && err2 == nil && os.SameFile(mine, its)
}

// inFile is a ledger in a file that is copied into. It takes everything.
type inFile struct{ *sqlite.Ledger }

func (inFile) Fits(transfer.Event) error { return nil }

func (l inFile) Take(_ context.Context, all []transfer.Event) error {
	return l.Ledger.Take(arrived(all))
}

func (inFile) Tidy(context.Context) error { return nil }

// inCluster is a ledger in a cluster that is copied into.
type inCluster struct{ *esdb.Ledger }

func (inCluster) Fits(e transfer.Event) error { return esdb.Fits(sqlite.Arrived(e)) }

func (l inCluster) Take(ctx context.Context, all []transfer.Event) error {
	return l.Ledger.Take(ctx, arrived(all))
}

func arrived(all []transfer.Event) []sqlite.Arrived {
	out := make([]sqlite.Arrived, len(all))
	for i, e := range all {
		out[i] = sqlite.Arrived(e)
	}
	return out
}

// open opens the ledger, and waits until all of it is here.
func (e *end) open(ctx context.Context, m *meter) error {
	if e.file != "" {
		l, err := sqlite.Open(e.file, projections.Project)
		if err == nil {
			e.ledger = inFile{l}
		}
		return err
	}
	if err := esdb.Knock(ctx, *e.address); err != nil {
		return err
	}
	l, err := e.openMirrored()
	if err != nil {
		return err
	}
	err = l.CaughtUp(ctx, func(end events.Position) {
		if end > 0 {
			m.progress("read "+e.shown, end, 0)
		}
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	e.ledger = inCluster{l}
	return nil
}

// openMirrored opens a ledger in a cluster. What a copy that was broken off has read of
// another, which was at the same address, is of no use to anybody.
func (e *end) openMirrored() (*esdb.Ledger, error) {
	open := func() (*esdb.Ledger, error) {
		return esdb.Open(*e.address, projections.Project, esdb.Prepare(ops.Refold))
	}
	l, err := open()
	if err != nil && e.own != "" && failure.Of(err).Code == "other_ledger" {
		if err = os.RemoveAll(e.own); err == nil {
			l, err = open()
		}
	}
	return l, err
}

// close closes the ledger, and takes this copy's own mirror away, unless the copy was
// broken off: then the next need not read everything again.
func (e *end) close(why error) error {
	err := e.ledger.Close()
	if e.own == "" {
		return err
	}
	if why != nil {
		switch failure.Of(why).Code {
		case "interrupted", "unreachable":
			return err
		}
	}
	return errors.Join(err, os.RemoveAll(e.own))
}

// apart refuses two addresses that are of one ledger of one cluster.
func apart(ctx context.Context, a, b *end) error {
	if a.address == nil || b.address == nil || a.address.Prefix != b.address.Prefix {
		return nil
	}
	one, err := a.ledger.(inCluster).Cluster(ctx)
	if err != nil {
		return err
	}
	other, err := b.ledger.(inCluster).Cluster(ctx)
	if err == nil && one == other {
		err = sameLedger(a.shown)
	}
	return err
}
