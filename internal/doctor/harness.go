package doctor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"decklog/events"
	"decklog/internal/install"
)

// harness looks at one harness.
func (x *examination) harness(h *install.Harness) part {
	program := lookPath(h.Program, x.Environ("PATH"))
	var rest part
	installed := x.installed(&rest, h)
	p := part{x.found(h, program, installed)}
	if program == "" && !installed && len(rest) == 1 && rest[0].Level == OK {
		return p // nobody here uses it
	}
	p = append(p, rest...)
	if !installed {
		return p
	}
	if h.Name == "codex" && program != "" {
		x.trusted(&p, program)
	}
	x.runs(&p, h)
	return p
}

// found says where the harness's program is, and which version.
func (x *examination) found(h *install.Harness, program string, installed bool) Line {
	switch {
	case program != "":
		return x.version(h, program)
	case !installed:
		return Line{About: h.Name, Check: "found", Level: OK, Says: "not on this machine"}
	case h.Experimental:
		return Line{About: h.Name, Check: "found", Level: OK, Says: h.Program + " is not on PATH, which an editor need not be; what decklog does in it is experimental"}
	}
	return Line{
		About: h.Name, Check: "found", Level: Warning, Says: h.Program + " is not on PATH, and decklog is installed in it",
		Fix: "install " + h.Program + ", put it on PATH, or take decklog out: decklog install " + h.Name + " --remove",
	}
}

// installed looks whether the configuration is as decklog would write it.
func (x *examination) installed(p *part, h *install.Harness) bool {
	const check = "installed"
	plan, err := h.Install(x.Place)
	var broken *install.Broken
	switch {
	case errors.As(err, &broken):
		p.say(h.Name, check, Fault, "mend the file by hand; then: decklog install "+h.Name+" --check", "%v", broken)
		return false
	case err != nil:
		p.say(h.Name, check, Fault, "", "%v", err)
		return false
	case len(plan.Changes) == 0:
		p.say(h.Name, check, OK, "", "as this decklog writes it")
	default:
		if h.ByPlugin(x.Place) {
			p.say(h.Name, check, OK, "", "by its plugin")
			return true
		}
		there, err := h.Remove(x.Place, install.NoRecord())
		if err != nil || len(there.Changes) == 0 {
			p.say(h.Name, check, OK, "", "not in the user's configuration; if you want it there: decklog install %s", h.Name)
			return x.heard(h) // by a plugin, or in a project
		}
		var missing []string
		for _, c := range plan.Changes {
			missing = append(missing, c.Path+" ("+strings.Join(c.Says, ", ")+")")
		}
		p.say(h.Name, check, Warning, "decklog install "+h.Name, "not as this decklog writes it: %s", strings.Join(missing, "; "))
	}
	for _, why := range h.Obstacles(x.Place) {
		p.say(h.Name, "hooks", Fault, why.Fix, "%s", why.Says)
	}
	return true
}

func (x *examination) heard(h *install.Harness) bool {
	return x.ledger != nil && x.ledger.Heard[h.Name] != nil
}

// runs says when a hook last ran, delivered, and went wrong.
func (x *examination) runs(p *part, h *install.Harness) {
	var run, delivery events.Time
	if x.heard(h) {
		run, delivery = x.ledger.Heard[h.Name].Run, x.ledger.Heard[h.Name].Delivery
	}
	if run == 0 {
		p.say(h.Name, "last hook run", OK, "", "none yet: begin a session of %s", h.Program)
	} else {
		p.say(h.Name, "last hook run", OK, "", "%s; live sessions: %d", x.ago(run), x.ledger.Heard[h.Name].Live)
	}
	if delivery == 0 {
		p.say(h.Name, "last delivery", OK, "", "none yet")
	} else {
		p.say(h.Name, "last delivery", OK, "", "%s", x.ago(delivery))
	}
	for i := len(x.faults) - 1; i >= 0; i-- {
		f := x.faults[i]
		if f.Harness != h.Name {
			continue
		}
		if f.Time <= run {
			p.say(h.Name, "last fault", OK, "", "%s at %s: %s: %s; hooks ran since", x.ago(f.Time), orUnknown(f.Event), f.Code, f.What)
		} else {
			p.say(h.Name, "last fault", Warning, "see to what it says; this line is ok again after the next hook that runs well", "%s at %s: %s: %s", x.ago(f.Time), orUnknown(f.Event), f.Code, f.What)
		}
		return
	}
	p.say(h.Name, "last fault", OK, "", "none")
}

func orUnknown(event string) string {
	if event == "" {
		return "an unknown event"
	}
	return event
}

var versionLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+\.\d+\.\d+[^\s)]*`) })

// version asks a program which one it is. It is given a home of its own, since
// some make folders in theirs before they answer.
func (x *examination) version(h *install.Harness, program string) Line {
	l := Line{About: h.Name, Check: "found", Level: OK}
	home, err := os.MkdirTemp("", "decklog-doctor-")
	if err != nil {
		l.Says = program
		return l
	}
	defer os.RemoveAll(home)
	out, err := x.ask(program, nil, []string{"HOME=" + home}, "--version")
	version := versionLike().FindString(string(out))
	switch {
	case version != "":
		l.Says = program + ", version " + version
	case errors.Is(err, context.DeadlineExceeded):
		l.Says = program + ", which did not say its version within " + x.Patience.String() // slow is no fault
	default:
		l.Level, l.Says, l.Fix = Warning, program+" does not say its version", "try it: "+h.Program+" --version"
	}
	return l
}

// ask runs a program with a few variables, and gives what it prints.
func (x *examination) ask(program string, stdin []byte, more []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(x.ctx, x.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append([]string{"PATH=" + x.Environ("PATH"), "LANG=C.UTF-8", "TERM=dumb"}, more...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// lookPath finds a program on a PATH; empty when it is not there.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); dir != "" && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return file
		}
	}
	return ""
}
