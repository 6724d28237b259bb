package cli

import (
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/policyfile"
)

func policy() *Command {
	return &Command{
		Name: "policy", Group: "set-up", Usage: "check|show|adopt [--policy FILE]",
		Short: "the bounds, the roster, and who decides them",
		Long: `check reads a policy file and names every fault with its line; it changes nothing.
show prints the policy in force as a file that could be adopted.
adopt puts a file in force from now on, which only a person does. The first command on
an empty ledger adopts decklog.toml beside it, or the defaults; a file that is changed
later changes nothing until it is adopted.`,
		Examples: []string{`decklog policy show > decklog.toml`, `decklog policy check --policy decklog.toml`, `decklog policy adopt --policy decklog.toml`},
		Words:    []string{"check", "show", "adopt"},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("policy", "", "the policy `FILE` (default: decklog.toml beside the ledger)")
		},
		Run: func(r *run) error {
			if err := r.want(1, 1, "check, show or adopt"); err != nil {
				return err
			}
			switch r.args[0] {
			case "check":
				return r.checkPolicy()
			case "show":
				return r.showPolicy()
			case "adopt":
				return r.adoptPolicy()
			}
			return misused("there is no `policy %s`; check, show or adopt", r.args[0])
		},
	}
}

// policyFile is the file that the flags name, or the one beside the ledger.
func (r *run) policyFile() (string, error) {
	if file := r.str("policy"); file != "" {
		return file, nil
	}
	if err := r.open(); err != nil {
		return "", err
	}
	if r.beside.Folder == "" {
		return "", misused("--policy is missing, and this ledger has no folder")
	}
	return filepath.Join(r.beside.Folder, PolicyName), nil
}

// PolicyName is what a policy file beside a ledger is called.
const PolicyName = "decklog.toml"

func (r *run) loadPolicy() (string, events.Policy, []policyfile.Fault, error) {
	file, err := r.policyFile()
	if err != nil {
		return "", events.Policy{}, nil, err
	}
	p, faults, err := policyfile.Load(file)
	return file, p, faults, err
}

// BadPolicy is the error of a policy file with faults.
func BadPolicy(file string, faults []policyfile.Fault) error {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.String()
	}
	return Failed("bad_policy", "mend the lines named, check with `decklog policy check --policy "+file+"`; nothing was adopted",
		fmt.Errorf("the policy has %s:\n%s", plural(len(faults), "fault"), strings.Join(lines, "\n")))
}

func (r *run) checkPolicy() error {
	file, _, faults, err := r.loadPolicy()
	if err != nil {
		return err
	}
	if faults == nil {
		faults = []policyfile.Fault{}
	}
	if len(faults) > 0 {
		r.code = ExitFailed
	}
	return r.show(map[string]any{"ok": len(faults) == 0, "file": file, "faults": faults}, nil, nil, func() error {
		for _, f := range faults {
			if err := r.printf("%s\n", f); err != nil {
				return err
			}
		}
		if len(faults) == 0 {
			return r.printf("policy: ok\n")
		}
		return r.printf("policy: %s\n", plural(len(faults), "fault"))
	})
}

func (r *run) showPolicy() error {
	if r.ops == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	inForce, err := r.ops.Policy()
	return r.show(inForce, nil, err, func() error { return r.write(policyfile.Render(inForce.Policy)) })
}

func (r *run) adoptPolicy() error {
	file, p, faults, err := r.loadPolicy()
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return BadPolicy(file, faults)
	}
	if r.ops == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	before, err := r.ops.Policy()
	if err != nil {
		return err
	}
	receipt, refusal, err := r.ops.AdoptPolicy(ops.Asker{As: r.as, Command: events.CommandID(r.id)}, p)
	return r.answer(receipt, refusal, err, func() string {
		if before.Position > 0 && reflect.DeepEqual(before.Policy, p) {
			return "unchanged: this policy is in force already"
		}
		return fmt.Sprintf("adopted: %s is in force from position %d", file, receipt.Position)
	})
}

func version() *Command {
	return &Command{
		Name: "version", Group: "set-up", Usage: "",
		Short:    "which decklog this is",
		Long:     `Prints the version, the commit it was built from, and the versions of its rules and folds.`,
		Examples: []string{`decklog version --json`},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			v := r.Version
			return r.show(v, nil, nil, func() error {
				return r.printf("decklog %s (%s, %s, protocol %d, folds %d, clock %s)\n", v.Version, or(v.Commit, "no commit"), v.Go, v.Protocol, v.Fold, v.Clock)
			})
		},
	}
}
