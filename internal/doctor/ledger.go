package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"decklog/internal/ops"
	"decklog/internal/policyfile"
	"decklog/projections"
)

// The bounds of a healthy ledger.
const (
	walBytesMax  = 64 << 20 // the log is moved into the file long before
	freeBytesMin = 200 << 20
	freeBytesLow = 20 << 20
)

// examineLedger looks at the ledger's file, opens it, and looks at the end of its
// history.
func (x *examination) examineLedger() (p part) {
	const about = "ledger"
	if x.LedgerErr != nil {
		says, fix := x.Explain(x.LedgerErr)
		p.say(about, "address", Fault, fix, "%s", says)
		return p
	}
	if x.Cluster != "" {
		p.say(about, "served", OK, "", "%s, on this machine by %s", x.Cluster, x.Served)
	} else if x.Served != "" {
		p.say(about, "served", OK, "", "by %s; its files are looked at on its machine, with the ledger's own address: decklog doctor --ledger URL", x.Served)
		x.open(&p)
		return p
	}
	if x.LedgerFile == "" {
		p.say(about, "file", Warning, "name one in a file: DECKLOG_LEDGER=sqlite:PATH", "it is in memory, and gone when its process ends")
		return p
	}
	info, err := os.Stat(x.LedgerFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if x.Cluster != "" {
			p.say(about, "file", OK, "", "%s, the views, is made by decklog serve", x.LedgerFile)
			x.space(&p)
			x.open(&p)
			return p
		}
		p.say(about, "file", OK, "", "%s is made on first use", x.LedgerFile)
		x.space(&p)
		return p
	case err != nil:
		p.say(about, "file", Fault, "make it readable and writable for you", "%v", err)
		return p
	case info.Mode().IsRegular() && info.Size() == 0 && x.Cluster == "":
		p.say(about, "file", OK, "", "%s is empty, and filled on first use", x.LedgerFile)
		return p
	}
	x.modes(&p, info)
	// Sizes and modes before it is opened: no file of a ledger may be looked into
	// by a process that holds it.
	x.log(&p)
	x.space(&p)
	x.open(&p)
	return p
}

func (x *examination) modes(p *part, info fs.FileInfo) {
	switch mode := info.Mode().Perm(); {
	case mode&0o077 != 0:
		p.say("ledger", "file", Warning, fmt.Sprintf("chmod 600 %s", x.LedgerFile), "%s can be read or written by others: its mode is %04o", x.LedgerFile, mode)
	case mode&0o600 != 0o600:
		p.say("ledger", "file", Fault, fmt.Sprintf("chmod 600 %s", x.LedgerFile), "%s cannot be read and written by you: its mode is %04o", x.LedgerFile, mode)
	default:
		p.say("ledger", "file", OK, "", "%s, %s, mode %04o", x.LedgerFile, size(info.Size()), mode)
	}
	folder, err := os.Stat(filepath.Dir(x.LedgerFile))
	if err == nil && folder.Mode().Perm()&0o022 != 0 && folder.Mode()&os.ModeSticky == 0 {
		p.say("ledger", "folder", Warning, "chmod 700 "+filepath.Dir(x.LedgerFile), "others may put files beside the ledger: its folder's mode is %04o", folder.Mode().Perm())
	}
}

func (x *examination) log(p *part) {
	info, err := os.Stat(x.LedgerFile + "-wal")
	switch {
	case err != nil:
		p.say("ledger", "log", OK, "", "none: all is in the file")
	case info.Size() > walBytesMax:
		p.say("ledger", "log", Warning, "end the process that reads the ledger without an end (lsof "+x.LedgerFile+"-wal); the next command then moves the log into the file",
			"the write-ahead log has %s", size(info.Size()))
	default:
		p.say("ledger", "log", OK, "", "%s wait to be moved into the file", size(info.Size()))
	}
}

func (x *examination) space(p *part) {
	folder := filepath.Dir(x.LedgerFile)
	for folder != filepath.Dir(folder) {
		if _, err := os.Stat(folder); err == nil {
			break
		}
		folder = filepath.Dir(folder)
	}
	free, known := freeBytes(folder)
	switch {
	case !known:
	case free < freeBytesLow:
		p.say("ledger", "space", Fault, "free space on its disk", "only %s are free in %s", size(free), folder)
	case free < freeBytesMin:
		p.say("ledger", "space", Warning, "free space on its disk", "%s are free in %s", size(free), folder)
	default:
		p.say("ledger", "space", OK, "", "%s are free", size(free))
	}
}

func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}

// open opens the ledger and looks at its end.
func (x *examination) open(p *part) {
	o, kept, err := x.Open()
	if kept != nil {
		x.faults = kept.Faults()
	}
	if err != nil {
		says, fix := x.Explain(err)
		p.say("ledger", "opens", Fault, fix, "%s", says)
		return
	}
	found, err := o.Examine(x.Asker)
	switch {
	case x.Served != "" && x.Cluster == "", found.Journal == "" && x.Cluster != "": // its disk is its server's, or it did not say
	case found.Journal != "" && found.Journal != "wal":
		p.say("ledger", "disk", Warning, "move it to a local disk (DECKLOG_LEDGER), and leave the old one alone",
			"its file system may be shared with other machines: it is kept with the journal mode %q, which is slower, and only one machine may use it", found.Journal)
	default:
		p.say("ledger", "disk", OK, "", "local")
	}
	x.cluster(p, found.Cluster)
	if found.Namesake != "" {
		p.say("ledger", "name", Warning, ops.NamesakeFix, "another machine that serves this ledger goes by the name of this one, %s: sessions without a process are taken for those of both", found.Namesake)
	}
	if err != nil {
		says, fix := x.Explain(err)
		p.say("ledger", "opens", Fault, fix, "%s", says)
		return
	}
	switch {
	case len(found.Faults) > 0:
		p.say("ledger", "history", Fault, "keep a copy of the ledger, and see all of it: decklog verify", "position %d: %s", found.Faults[0].Position, found.Faults[0].What)
	case found.Outdated:
		p.say("ledger", "history", OK, "", "%d events; the next command folds the views anew, since an older decklog made them", found.Position)
	default:
		p.say("ledger", "history", OK, "", "%d events, of which the last %d hold together; for all: decklog verify", found.Position, found.Checked)
	}
	x.ledger = &found
}

// cluster says how the ledger stands towards the cluster that it lies in, if it does.
func (x *examination) cluster(p *part, c *projections.ClusterView) {
	switch {
	case c == nil:
		return
	case c.Live:
		p.say("ledger", "cluster", OK, "", "live: everything that was recorded until moments ago is here")
	case c.BehindMS == nil:
		p.say("ledger", "cluster", Fault, c.Fix, "what is shown is stale, and nobody knows since when: %s", c.Says)
	default:
		p.say("ledger", "cluster", Fault, c.Fix, "what is shown is stale, by up to %s: %s", (time.Duration(*c.BehindMS) * time.Millisecond).Truncate(time.Second), c.Says)
	}
	if c.Rebuilding {
		p.say("ledger", "rebuild", OK, "", "the views are being made anew; these are the old ones")
	}
	if c.Unsent > 0 {
		p.say("ledger", "unsent", Warning, "nothing, while it is only for moments; else see that the cluster takes appends, and keep the folder of the views", "%d commands are recorded in part, and the rest is still to be sent", c.Unsent)
	}
	if c.Undropped > 0 {
		fix := "see that the user of the ledger's address may delete streams; they go by themselves then"
		if !c.Live {
			fix = "nothing by itself: they go when the cluster is here again"
		}
		p.say("ledger", "removed", Warning, fix, "%d texts that no message has are still in the cluster, and wait to be removed: they were taken back, or their messages were never recorded", c.Undropped)
	}
}

// caller says who asks.
func (x *examination) caller() (p part) {
	const about, check = "caller", "now"
	switch {
	case x.ledger == nil || x.ledger.Outdated:
	case x.ledger.Nobody != nil:
		p.say(about, check, Warning, x.ledger.Nobody.Fix, "%s", x.ledger.Nobody.Message)
	case x.ledger.Session != nil:
		s := x.ledger.Session
		seat := ""
		if s.Seat != "" {
			seat = ", on the seat @" + s.Seat
		}
		p.say(about, check, OK, "", "the session %s of %s%s", s.ID, orBy(s.Harness), seat)
	case !x.ledger.Caller.Known():
		p.say(about, check, OK, "", "nobody that takes part")
	case x.ledger.Caller.ID.Session() != "":
		p.say(about, check, Warning, "begin the session anew, once decklog is installed in its harness", "the session %s, which never joined: it cannot send", x.ledger.Caller.ID)
	default:
		p.say(about, check, OK, "", "%s", x.ledger.Caller.ID)
	}
	return p
}

func orBy(harness string) string {
	if harness == "" {
		return "no harness"
	}
	return harness
}

// policy compares the file with what is in force.
func (x *examination) policy() (p part) {
	const about, check = "policy", "file"
	folder := x.Place.Ledger
	switch {
	case x.LedgerFile != "":
		folder = filepath.Dir(x.LedgerFile)
	case x.Served == "" || folder == "":
		return p
	}
	file := filepath.Join(folder, x.PolicyName)
	read, faults, err := policyfile.Load(file)
	inForce := x.ledger != nil && x.ledger.Policy != nil
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.LedgerFile == "": // it may lie elsewhere than the socket
	case errors.Is(err, fs.ErrNotExist):
		p.say(about, check, OK, "", "there is none beside the ledger; see what is in force: decklog policy show")
	case err != nil:
		p.say(about, check, Fault, "make it readable", "%v", err)
	case len(faults) > 0:
		p.say(about, check, Fault, "decklog policy check --policy "+file, "%s has %d faults; the first: %s", file, len(faults), faults[0])
	case inForce && !reflect.DeepEqual(read, *x.ledger.Policy):
		p.say(about, check, Warning, "adopt it (decklog policy adopt), or write what is in force: decklog policy show > "+file, "%s differs from the policy in force, and changes nothing until a person adopts it", file)
	case inForce:
		p.say(about, check, OK, "", "%s is in force", file)
	default:
		p.say(about, check, OK, "", "%s is well-formed; the first command adopts it", file)
	}
	return p
}

// clock says whether the clock went back since something was recorded.
func (x *examination) clock() (p part) {
	if x.ledger == nil {
		return p
	}
	if x.ledger.Ahead > 0 {
		by := time.Duration(x.ledger.AheadMax) * time.Microsecond
		p.say("clock", "now", Warning, "set this machine's clock (NTP); order is by position and nothing is lost, but ages and due times are off until it is right",
			"%d of the last %d events were recorded ahead of now, the farthest by %s", x.ledger.Ahead, x.ledger.Checked, by.Truncate(time.Millisecond))
		return p
	}
	p.say("clock", "now", OK, "", "no event is ahead of it")
	return p
}
