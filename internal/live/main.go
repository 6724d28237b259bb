// Command live tries decklog's hooks on the real programs of the harnesses,
// without a network and without a model: each is run in a home of its own, into
// which `decklog install` wrote, against a stub of its model on the loopback
// address. The stub answers as each step is scripted and keeps what the model
// was sent; the ledger says what was delivered; the two must agree, and the
// harness's own transcript with both.
//
// `make live` runs it. The programs come from npm, in fixed versions, into the
// user's cache. Where they cannot be had, it says so and skips.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// longest bounds a whole run, and installing bounds what comes before it.
const (
	longest    = 20 * time.Minute
	installing = 10 * time.Minute
)

func main() {
	var o options
	flag.StringVar(&o.decklog, "program", "bin/decklog", "the decklog to try")
	flag.StringVar(&o.only, "harness", "", "try only this one: claude-code, codex, gemini or opencode")
	flag.StringVar(&o.capture, "capture", "", "write what each hook is told, without what is of this machine, into this `folder`")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder of the run")
	flag.StringVar(&o.claude, "claude", "2.1.332", "the version of Claude Code")
	flag.StringVar(&o.codex, "codex", "0.171.0", "the version of Codex")
	flag.StringVar(&o.gemini, "gemini", "0.61.0", "the version of Gemini CLI")
	flag.StringVar(&o.opencode, "opencode", "1.18.33", "the version of opencode")
	flag.StringVar(&o.inside, "inside", "", "go on in this folder: what the command itself says to its second half")
	flag.BoolVar(&o.open, "open", false, "there is a network: what the command itself says to its second half")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := o.run(ctx)
	stop()
	os.Exit(code)
}

type options struct {
	decklog, only, capture, claude, codex, gemini, opencode, inside string
	keep, open                                                      bool
}

// harnesses are those to try.
func (o options) harnesses() []*harness {
	all := []*harness{claudeCode(), codexCLI(), codexByExec(), geminiCLI(), geminiHeadless(), opencodeServer()}
	versions := map[string]string{"claude-code": o.claude, "codex": o.codex, "gemini": o.gemini, "opencode": o.opencode}
	for _, h := range all {
		h.version = versions[h.name]
	}
	return slices.DeleteFunc(all, func(h *harness) bool { return o.only != "" && h.name != o.only && h.label != o.only })
}

func (o options) run(ctx context.Context) int {
	cache, err := os.UserCacheDir()
	if err != nil {
		return skip("there is no cache folder for the programs: %v", err)
	}
	cache = filepath.Join(cache, "decklog-live")
	if o.inside != "" {
		return o.play(ctx, cache)
	}
	if o.decklog, err = filepath.Abs(o.decklog); err == nil {
		_, err = os.Stat(o.decklog)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "there is no decklog to try, `make build` makes it:", err)
		return 1
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return skip("there is no cache folder for the programs: %v", err)
	}
	forget(cache)
	had := map[string]bool{}
	for _, h := range o.harnesses() {
		if _, asked := had[h.npm]; asked {
			continue
		}
		err := h.install(ctx, cache)
		if err != nil {
			fmt.Printf("%s %s cannot be had and is skipped: %v\n", h.npm, h.version, err)
		}
		had[h.npm] = err == nil
	}
	if !slices.Contains(slices.Collect(maps.Values(had)), true) {
		return skip("there is no harness to try it on")
	}
	if o.inside, err = os.MkdirTemp(cache, "run-"); err != nil {
		return skip("there is no folder to run in: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	code := o.nest(ctx)
	switch {
	case o.keep, code != 0:
		fmt.Println("What was sent, printed and recorded is kept in", o.inside)
	default:
		if err := os.RemoveAll(o.inside); err != nil {
			fmt.Println("the folder of the run is left:", err)
		}
	}
	return code
}

// forget removes what earlier runs kept, a day later.
func forget(cache string) {
	kept, _ := filepath.Glob(filepath.Join(cache, "run-*"))
	for _, folder := range kept {
		if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(folder)
		}
	}
}

func skip(why string, args ...any) int {
	fmt.Printf("make live is skipped: "+why+"\n", args...)
	return 0
}

// home is where a version of the harness's package is installed.
func (h *harness) home(cache string) string {
	return filepath.Join(cache, strings.Trim(strings.ReplaceAll(h.npm, "/", "-"), "@")+"-"+h.version)
}

func (h *harness) bin(cache string) string {
	return filepath.Join(h.home(cache), "node_modules", ".bin", h.command)
}

// installed marks a folder into which a package was installed whole.
const installed = "installed"

func (h *harness) install(ctx context.Context, cache string) error {
	home := h.home(cache)
	if _, err := os.Stat(filepath.Join(home, installed)); err == nil {
		return nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("there is no npm")
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	fmt.Printf("installing %s %s, 100 to 450 MB, once\n", h.npm, h.version)
	ctx, cancel := context.WithTimeout(ctx, installing)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", home, "--no-audit", "--no-fund", "--no-save", "--loglevel", "error", h.npm+"@"+h.version)
	cmd.WaitDelay = 5 * time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("npm install: %w: %s", err, lines[0])
	}
	said, err := exec.CommandContext(ctx, h.bin(cache), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), h.version) {
		return fmt.Errorf("%s --version: %v: %.200s", h.command, err, said)
	}
	return os.WriteFile(filepath.Join(home, installed), nil, 0o600)
}

// nest runs the second half of this command where there is no network and
// where no process outlives it; where that is not permitted, it says so.
func (o options) nest(ctx context.Context) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "find this program:", err)
		return 1
	}
	half := []string{self, "-inside", o.inside, "-program", o.decklog, "-harness", o.only, "-capture", o.capture, "-claude", o.claude, "-codex", o.codex, "-gemini", o.gemini, "-opencode", o.opencode}
	const up = `ip link set lo up && exec "$@"`
	argv := half
	for _, flags := range [][]string{{}, {"--user", "--map-root-user"}} {
		nest := append([]string{"unshare"}, append(flags, "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", up, "sh")...)
		if exec.CommandContext(ctx, nest[0], append(slices.Clone(nest[1:]), "true")...).Run() == nil {
			argv = append(nest, half...)
			break
		}
	}
	if len(argv) == len(half) {
		argv = append(argv, "-open")
		fmt.Println("A network namespace is not permitted here: the programs are told of the stub alone, and of a proxy that is not there, but nothing keeps them from the network.")
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 10*time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			fmt.Println("ended before its end:", context.Cause(ctx))
		}
		return 1
	}
	return 0
}

// play is the second half: each harness plays, and a table tells how.
func (o options) play(ctx context.Context, cache string) int {
	var plays []*play
	taken := map[string]bool{}
	for _, h := range o.harnesses() {
		if _, err := os.Stat(filepath.Join(h.home(cache), installed)); err != nil {
			continue
		}
		fmt.Printf("\n%s %s\n", h.label, h.version)
		p, err := o.one(ctx, h, cache, taken)
		if err != nil {
			p.cells = append(p.cells, cell{"the play", failed + err.Error()})
		}
		plays = append(plays, p)
	}
	return table(plays)
}

func (o options) one(ctx context.Context, h *harness, cache string, taken map[string]bool) (*play, error) {
	p := &play{}
	s, err := newStage(ctx, h, filepath.Join(o.inside, strings.ReplaceAll(h.label, " ", "-")), o.decklog, h.bin(cache), o.capture != "")
	if err != nil {
		p.stage = &stage{harness: h}
		return p, err
	}
	defer s.model.close()
	p.stage, s.exposed = s, o.open
	p.all()
	if left := endAll(); len(left) > 0 {
		fmt.Printf("  %s left processes running, which were ended: %s\n", h.name, strings.Join(left, ", "))
	}
	if o.capture != "" {
		return p, s.keepCaptured(filepath.Join(o.capture, h.name), taken)
	}
	return p, nil
}

// table prints harness by capability, and is 1 when something failed.
func table(plays []*play) (code int) {
	var capabilities []string
	how := map[string]map[string]string{}
	for _, p := range plays {
		for _, c := range p.cells {
			if how[c.capability] == nil {
				how[c.capability] = map[string]string{}
				capabilities = append(capabilities, c.capability)
			}
			how[c.capability][p.label] = c.how
		}
	}
	fmt.Printf("\n%-36s", "")
	for _, p := range plays {
		fmt.Printf(" %-26s", p.label+" "+p.version)
	}
	var why []string
	for _, c := range capabilities {
		fmt.Printf("\n%-36s", c)
		for _, p := range plays {
			short, reason, _ := strings.Cut(how[c][p.label], ": ")
			if short == "" {
				short = "-"
			}
			if reason != "" {
				why = append(why, fmt.Sprintf("%s, %s: %s: %s", p.label, c, short, reason))
			}
			if short == "failed" {
				code = 1
			}
			fmt.Printf(" %-26s", short)
		}
	}
	fmt.Println()
	for _, line := range why {
		fmt.Println(line)
	}
	for _, p := range plays {
		for _, event := range slices.Sorted(maps.Keys(p.roles)) {
			read := ""
			if slices.Contains(p.occasions.unproven, event) {
				read = ", and is never told as read"
			}
			fmt.Printf("%s: what %s brings comes to the model as %s%s\n", p.label, event, p.roles[event], read)
		}
	}
	return code
}
