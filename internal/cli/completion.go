package cli

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// All is every command, in the order of the overview.
func All() []*Command {
	return []*Command{
		send(), inbox(), thread(), threads(), top(), wait(), edit(), remove(),
		join(), leave(), peers(), mailboxes(), owed(),
		turn(), ack(), driver(), sticker(), handoff(), route(), card(), review(), alert(),
		hook(), wake(), servesMCP(), servesHTTP(), lease(), confirm(),
		listEvents(), refusals(), health(), exports(), verify(), rebuild(),
		policy(), tokens(), installs(), doctors(), checksEngine(), copies(), statusline(), notifies(), version(), completion(),
	}
}

func completion() *Command {
	c := &Command{
		Name: "completion", Group: "set-up", Usage: "bash|zsh|fish",
		Short: "a script that completes commands and flags in a shell",
		Long: `Prints a completion script. For bash: source it, or put it where your completions
lie. For zsh: put it into a folder of $fpath as _decklog. For fish: into
~/.config/fish/completions/decklog.fish.`,
		Examples: []string{`source <(decklog completion bash)`, `decklog completion fish > ~/.config/fish/completions/decklog.fish`},
		Words:    []string{"bash", "zsh", "fish"},
	}
	c.Run = func(r *run) error {
		if err := r.want(1, 1, "the shell: bash, zsh or fish"); err != nil {
			return err
		}
		switch r.args[0] {
		case "bash":
			return r.write([]byte(bashCompletion()))
		case "zsh":
			return r.write([]byte(zshCompletion()))
		case "fish":
			return r.write([]byte(fishCompletion()))
		}
		return misused("there is no completion for %q; bash, zsh or fish", r.args[0])
	}
	return c
}

// choices are the words that a flag takes, where there are only a few: by the
// flag's name, or by the command's and its own where another's takes other words.
var choices = map[string]string{
	"scope": "read write", "intent": "request inform done", "turn": "working final", "wait for": "reply final any",
	"status": "investigating planning driving reviewing blocked done",
	"state":  "queued held leased delivered read expired undelivered deleted", "threads state": "open done", "format": "cloudevents", "harness": "claude-code codex gemini opencode cursor",
}

func (c *Command) flagNames() (names []string) {
	c.eachFlag(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

func commandNames() (names []string) {
	for _, c := range All() {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return append(names, "help")
}

func bashCompletion() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# bash completion for decklog\n_decklog() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n  case \"${COMP_WORDS[1]} $prev\" in\n")
	for _, name := range sortedChoices() {
		fmt.Fprintf(&b, "    %s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", afterFlag(name), choices[name])
	}
	fmt.Fprintf(&b, "    *--body-file|*--payload|*--policy|*--cwd|*--repo) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n  esac\n")
	fmt.Fprintf(&b, "  if [ \"$COMP_CWORD\" -eq 1 ]; then words=%q\n  else case ${COMP_WORDS[1]} in\n", strings.Join(commandNames(), " "))
	for _, c := range All() {
		fmt.Fprintf(&b, "    %s) words=%q ;;\n", c.Name, strings.Join(append(slices.Clone(c.Words), c.flagNames()...), " "))
	}
	fmt.Fprintf(&b, "    help) words=%q ;;\n  esac; fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _decklog decklog\n", strings.Join(commandNames(), " "))
	return b.String()
}

// afterFlag is the pattern by which bash and zsh know, of the command and the
// word before, that the words of a choice are wanted.
func afterFlag(choice string) string {
	if command, name, of := strings.Cut(choice, " "); of {
		return command + `\ --` + name
	}
	return `*\ --` + choice
}

// sortedChoices are the choices in the order in which a shell tries them: those of
// one command before those of any, or these would answer for it.
func sortedChoices() (names []string) {
	for name := range choices {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(b, " "), strings.Count(a, " ")), cmp.Compare(a, b))
	})
	return names
}

func zshCompletion() string {
	var b strings.Builder
	b.WriteString("#compdef decklog\n_decklog() {\n  local -a commands\n  commands=(\n")
	for _, c := range All() {
		fmt.Fprintf(&b, "    %s\n", shellQuote(c.Name+":"+c.Short))
	}
	b.WriteString("  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n  case \"$words[2] $words[CURRENT-1]\" in\n")
	for _, name := range sortedChoices() {
		fmt.Fprintf(&b, "    %s) compadd %s; return ;;\n", afterFlag(name), choices[name])
	}
	b.WriteString("    *--body-file|*--payload|*--policy|*--cwd|*--repo) _files; return ;;\n  esac\n  case $words[2] in\n")
	for _, c := range All() {
		fmt.Fprintf(&b, "    %s) compadd -- %s ;;\n", c.Name, strings.Join(append(slices.Clone(c.Words), c.flagNames()...), " "))
	}
	b.WriteString("    help) _describe command commands ;;\n  esac\n}\n_decklog \"$@\"\n")
	return b.String()
}

// shellQuote is a text as bash, zsh and any other shell of that family read it.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func fishCompletion() string {
	var b strings.Builder
	b.WriteString("# fish completion for decklog\ncomplete -c decklog -f\n")
	for _, c := range All() {
		fmt.Fprintf(&b, "complete -c decklog -n __fish_use_subcommand -a %s -d %s\n", c.Name, fishQuote(c.Short))
		in := fishQuote("__fish_seen_subcommand_from " + c.Name)
		if len(c.Words) > 0 {
			fmt.Fprintf(&b, "complete -c decklog -n %s -a %s\n", in, fishQuote(strings.Join(c.Words, " ")))
		}
		c.eachFlag(func(f *flag.Flag) {
			_, usage := flag.UnquoteUsage(f)
			takes, words := "", or(choices[c.Name+" "+f.Name], choices[f.Name])
			switch {
			case words != "":
				takes = " -x -a " + fishQuote(words)
			case slices.Contains([]string{"body-file", "payload", "policy", "cwd", "repo"}, f.Name):
				takes = " -r -F"
			}
			fmt.Fprintf(&b, "complete -c decklog -n %s -l %s%s -d %s\n", in, f.Name, takes, fishQuote(usage))
		})
	}
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
