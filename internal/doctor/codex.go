package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"decklog/internal/install"
)

// codexHook is a hook as Codex's app server lists it.
type codexHook struct {
	EventName   string `json:"eventName"`
	Command     string `json:"command"`
	Enabled     *bool  `json:"enabled"`
	TrustStatus string `json:"trustStatus"` // managed, untrusted, trusted, modified
}

// trusted asks Codex which of decklog's hooks its user has approved: it passes
// over the others without a word.
func (x *examination) trusted(p *part, program string) {
	const check, approve = "trusted", "start codex, type /hooks, look at each that runs decklog-hook or decklog, and trust it"
	hooks, err := x.codexHooks(program)
	if err != nil {
		p.say("codex", check, Warning, "look yourself: start codex and type /hooks", "codex app-server did not say: %v", err)
		return
	}
	var not, off []string
	mine := 0
	for _, h := range hooks {
		if !install.IsOurs(h.Command, "codex") {
			continue
		}
		mine++
		switch {
		case h.TrustStatus != "trusted" && h.TrustStatus != "managed":
			not = append(not, h.EventName+" is "+h.TrustStatus)
		case h.Enabled != nil && !*h.Enabled:
			off = append(off, h.EventName)
		}
	}
	slices.Sort(not)
	switch {
	case mine == 0:
		p.say("codex", check, Fault, "decklog install codex, and look at `codex features list` whether hooks are on", "codex finds no hook of decklog's")
	case len(not) > 0:
		p.say("codex", check, Fault, approve, "codex runs none of these: %s", strings.Join(not, ", "))
	case len(off) > 0:
		p.say("codex", check, Fault, "start codex, type /hooks, and switch them on", "switched off: %s", strings.Join(off, ", "))
	default:
		p.say("codex", check, OK, "", "all %d hooks", mine)
	}
}

// codexHooks are the hooks that Codex would look at in the user's folder.
func (x *examination) codexHooks(program string) ([]codexHook, error) {
	ctx, cancel := context.WithTimeout(x.ctx, x.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "app-server")
	cmd.Env = []string{"PATH=" + x.Environ("PATH"), "HOME=" + x.Place.Home, "LANG=C.UTF-8", "TERM=dumb"}
	if home := x.Environ("CODEX_HOME"); filepath.IsAbs(home) {
		cmd.Env = append(cmd.Env, "CODEX_HOME="+home)
	}
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	hooks, err := converse(stdin, stdout, x.Place.Home)
	_ = stdin.Close()
	cancel() // it has said what it was asked for
	_ = cmd.Wait()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", x.Patience)
	}
	return hooks, err
}

// converse speaks with the app server, a line of JSON at a time.
func converse(in io.Writer, out io.Reader, folder string) ([]codexHook, error) {
	lines := bufio.NewReaderSize(out, 1<<16)
	tell := func(line any) error {
		b, err := json.Marshal(line)
		if err == nil {
			_, err = in.Write(append(b, '\n'))
		}
		if err != nil {
			err = fmt.Errorf("it ended without an answer: %w", err)
		}
		return err
	}
	call := func(id int, method string, params, result any) error {
		if err := tell(map[string]any{"id": id, "method": method, "params": params}); err != nil {
			return err
		}
		return answer(lines, id, result)
	}
	client := map[string]any{"clientInfo": map[string]any{"name": "decklog-doctor", "title": "decklog doctor", "version": "1"}}
	if err := call(1, "initialize", client, nil); err != nil {
		return nil, err
	}
	if err := tell(map[string]any{"method": "initialized"}); err != nil {
		return nil, err
	}
	var listed struct {
		Data []struct {
			Hooks []codexHook `json:"hooks"`
		} `json:"data"`
	}
	if err := call(2, "hooks/list", map[string]any{"cwds": []string{folder}}, &listed); err != nil {
		return nil, err
	}
	var all []codexHook
	for _, d := range listed.Data {
		all = append(all, d.Hooks...)
	}
	return all, nil
}

// linesMax bounds what is read while waiting for an answer.
const linesMax = 10_000

// answer reads up to the answer to a question, past whatever else is said.
func answer(lines *bufio.Reader, id int, result any) error {
	for range linesMax {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("it ended without an answer: %w", err)
		}
		var said struct {
			ID     *int            `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		switch {
		case json.Unmarshal(line, &said) != nil || said.ID == nil || *said.ID != id || said.Method != "":
			continue
		case said.Error != nil:
			return errors.New(said.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(said.Result, result)
	}
	return errors.New("it never answers")
}
