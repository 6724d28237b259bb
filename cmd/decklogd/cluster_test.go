package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"decklog/internal/esdbdouble"
	"decklog/internal/token"
)

// get asks a server for a page that needs no token.
func (m *machine) get(url string) (status int, body string) {
	m.Helper()
	answer, err := http.Get(url)
	if err != nil {
		m.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		m.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// until asks again and again until a page says something. Nobody is told when it will.
func (m *machine) until(url string, status int, says string) string {
	m.Helper()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		got, body := m.get(url)
		if got == status && strings.Contains(body, says) {
			return body
		}
		select {
		case <-every.C:
		case <-m.Context().Done():
			m.Fatalf("%s says %d %s", url, got, body)
		}
	}
}

// ran is a command that may fail.
func (m *machine) ran(args ...string) (code int, stdout, stderr string) {
	m.Helper()
	cmd := m.command("decklog", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		m.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// diagnosed is a line of the doctor's.
func (m *machine) diagnosed(check string, more ...string) (level, says, fix string) {
	m.Helper()
	var report struct {
		Lines []struct{ About, Check, Level, Says, Fix string }
	}
	about, check, _ := strings.Cut(check, " ")
	_, out, _ := m.ran(append([]string{"doctor", "--json"}, more...)...)
	m.read(out, &report)
	for _, l := range report.Lines {
		if l.About == about && l.Check == check {
			return l.Level, l.Says, l.Fix
		}
	}
	m.Fatalf("doctor says nothing of %s, %s: %s", about, check, out)
	return
}

func TestServeOnAClusterSaysHowItStandsAndMendsItsViewsWhileItServes(t *testing.T) {
	double, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(double.Stop)
	m := aboard(t)
	views := filepath.Join(m.dir, "ledger", "views.db")
	m.url = double.URL() + "&views=" + views
	server, url, socket := m.served()
	cluster := m.url
	m.url = socket
	m.join(ada, bob)
	id, _ := m.sent(ada, bob, "--", "Are you there?")
	m.until(url+"/readyz", http.StatusOK, `"ready":true`)
	if _, body := m.get(url + "/healthz"); strings.TrimSpace(body) != `{"ok":true}` {
		t.Errorf("healthz says %s", body)
	}
	if body := m.until(url+"/metrics", http.StatusOK, "decklog_cluster_live 1"); strings.Contains(body, "decklog_commit_commands_count 0\n") ||
		strings.Contains(body, "decklog_commit_duration_seconds_sum 0\n") {
		t.Error("sessions joined and a message was sent, and no commit is counted")
	}
	if level, says, _ := m.diagnosed("ledger cluster"); level != "ok" {
		t.Errorf("doctor says %s: %s", level, says)
	}

	// Only serve opens a cluster. The doctor looks at what this machine has of it, and
	// asks the serve for the rest.
	for check, want := range map[string]string{
		"ledger served": "unix:" + socketOf(views), "ledger file": views, "ledger space": "are free", "ledger log": "", "ledger disk": "local",
		"ledger cluster": "live", "ledger history": "hold together", "caller now": "",
	} {
		if level, says, _ := m.diagnosed(check, "--ledger", cluster); level != "ok" || !strings.Contains(says, want) {
			t.Errorf("with the cluster's address doctor says of %s %s: %s", check, level, says)
		}
	}
	policy := filepath.Join(filepath.Dir(views), "decklog.toml")
	if err := os.WriteFile(policy, []byte("[limit]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{cluster, socket} {
		if level, says, _ := m.diagnosed("policy file", "--ledger", address); level != "fault" || !strings.Contains(says, policy) {
			t.Errorf("of a faulty policy doctor says %s: %s", level, says)
		}
	}
	if err := os.Remove(policy); err != nil {
		t.Fatal(err)
	}

	before, err := os.Stat(views)
	if err != nil {
		t.Fatal(err)
	}
	var rebuilt struct {
		Receipt struct {
			Position int
			Digest   string
		}
	}
	m.read(m.done("", "decklog", "rebuild", "--json"), &rebuilt)
	var verified struct {
		OK       bool
		Position int
		Digest   string
	}
	m.read(m.done("", "decklog", "verify", "--json"), &verified)
	if !verified.OK || verified.Digest != rebuilt.Receipt.Digest || verified.Position != rebuilt.Receipt.Position {
		t.Errorf("rebuilt %+v, and then verified %+v", rebuilt, verified)
	}
	if after, err := os.Stat(views); err != nil || os.SameFile(before, after) {
		t.Errorf("the views are in the same file as before: %v", err)
	}

	// The cluster goes away.
	double.Stop()
	body := m.until(url+"/readyz", http.StatusServiceUnavailable, "stale")
	if !strings.Contains(body, "check that the cluster runs") {
		t.Errorf("readyz does not say what to do: %s", body)
	}
	m.until(url+"/healthz", http.StatusOK, `"stale":true`)
	m.until(url+"/metrics", http.StatusOK, "decklog_cluster_live 0")
	m.readsStale(url, id)
	var failed struct{ Error struct{ Code, Fix string } }
	code, out, errs := m.ran("send", "--json", "--as", ada, "--to", bob, "--", "Still there?")
	if m.read(out, &failed); code != 1 || failed.Error.Code != "unreachable" && failed.Error.Code != "unknown_outcome" || failed.Error.Fix == "" {
		t.Errorf("a send ends with %d %s%s", code, out, errs)
	}
	// By now it has been away for as long as anybody waits for it.
	code, out, errs = m.ran("send", "--json", "--as", ada, "--to", bob, "--", "Nobody?")
	if m.read(out, &failed); code != 1 || failed.Error.Code != "unreachable" {
		t.Errorf("a second send ends with %d %s%s", code, out, errs)
	}
	if level, says, fix := m.diagnosed("ledger cluster"); level != "fault" || !strings.Contains(says, "stale") || fix == "" {
		t.Errorf("doctor says %s: %s: %s", level, says, fix)
	}

	if level, says, _ := m.diagnosed("ledger history"); level != "ok" || strings.Contains(says, "older decklog") {
		t.Errorf("doctor says of views that are stale %s: %s", level, says)
	}
	if level, says, _ := m.diagnosed("ledger removed"); level != "warning" || !strings.Contains(says, "never recorded") {
		t.Errorf("doctor says of the text of what was not sent %s: %s", level, says)
	}

	// The machine starts again meanwhile.
	_ = server.Process.Signal(syscall.SIGTERM)
	if err := server.Wait(); err != nil {
		t.Fatal(err)
	}
	m.url = cluster
	if level, says, fix := m.diagnosed("ledger opens"); level != "fault" || !strings.HasPrefix(says, "no_server: ") || !strings.Contains(fix, "decklog serve") {
		t.Errorf("where nobody serves doctor says %s: %s: %s", level, says, fix)
	}
	if level, says, _ := m.diagnosed("ledger file"); level != "ok" || !strings.Contains(says, views) {
		t.Errorf("where nobody serves doctor says %s: %s", level, says)
	}
	_, url, socket = m.served()
	m.url = socket
	m.readsStale(url, id)
	m.until(url+"/readyz", http.StatusServiceUnavailable, "stale")

	// And by itself it is well when the cluster is.
	if err := double.Start(); err != nil {
		t.Fatal(err)
	}
	m.until(url+"/readyz", http.StatusOK, `"ready":true`)
	m.sent(ada, bob, "--", "There again.")
	if _, out, errs := m.ran("inbox", "--as", bob, "--json"); strings.Contains(out, "stale") || errs != "" {
		t.Errorf("the inbox is %s, and says %s", out, errs)
	}
}

// socketOf is where the serve listens that has these views.
func socketOf(views string) string { return filepath.Join(filepath.Dir(views), "decklog.sock") }

// readsStale finds that what is there is shown, with the word that it may be old.
func (m *machine) readsStale(url, id string) {
	m.Helper()
	var inbox struct {
		Stale    bool
		Messages []struct{ ID string }
	}
	code, out, errs := m.ran("inbox", "--as", bob, "--json")
	if m.read(out, &inbox); code != 0 || !inbox.Stale || len(inbox.Messages) == 0 || inbox.Messages[len(inbox.Messages)-1].ID != id || !strings.HasPrefix(errs, "stale: ") {
		m.Errorf("the inbox is %d %s, and says %s", code, out, errs)
	}
	peers := m.with("DECKLOG_AS="+bob).connect("").call("decklog_peers", map[string]any{})
	if !strings.HasPrefix(peers.text, "stale: ") || peers.isError || peers.data != nil && at(peers.data, "stale") != true {
		m.Errorf("the tool says %+v", peers)
	}
	// Whoever goes by an answer must know that it may be old: most of all who is told
	// that it may answer.
	for _, asked := range [][]string{{"turn", id, "--as", bob}, {"statusline", "--as", bob}} {
		var said struct{ Stale bool }
		code, out, errs := m.ran(append(asked, "--json")...)
		if m.read(out, &said); code != 0 || !said.Stale || strings.Count(errs, "stale: ") != 1 || !strings.HasPrefix(errs, "stale: ") {
			m.Errorf("%s is %d %s, and says %s", asked, code, out, errs)
		}
	}
	for _, asked := range [][]string{{"export", "--format", "cloudevents"}, {"events"}} {
		if code, out, errs := m.ran(asked...); code != 0 || !strings.Contains(out, id) || !strings.HasPrefix(errs, "stale: ") {
			m.Errorf("%s is %d %s, and says %s", asked, code, out, errs)
		}
	}
	turn := m.with("DECKLOG_AS="+bob).connect("").call("decklog_turn", map[string]any{"thread": id})
	if !strings.HasPrefix(turn.text, "stale: ") || turn.isError || turn.data != nil && at(turn.data, "stale") != true {
		m.Errorf("the tool says %+v", turn)
	}
	secret, err := token.OfMachine(filepath.Join(m.dir, "ledger"))
	if err != nil {
		m.Fatal(err)
	}
	answer, err := (&http.Client{Transport: authorized(secret)}).Get(url + "/v1/health")
	if err != nil {
		m.Fatal(err)
	}
	defer answer.Body.Close()
	var health struct {
		Stale   bool
		Cluster struct {
			Live      bool
			Code, Fix string
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&health); err != nil || !health.Stale || health.Cluster.Live || health.Cluster.Code != "unreachable" || health.Cluster.Fix == "" || answer.Header.Get("Decklog-Stale") != "true" {
		m.Errorf("health is %+v, %v", health, err)
	}
}

// hears tells when something is written that says this.
type hears struct {
	says  string
	heard chan struct{}
}

func (h hears) Write(b []byte) (int, error) {
	if strings.Contains(string(b), h.says) {
		select {
		case h.heard <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// Two homes on one host are two machines of a ledger, with one name unless they are
// given others. Each says so by itself, and a token of one is none of the other.
func TestTwoServesOfOneNameSaySoAndHaveTokensOfTheirOwn(t *testing.T) {
	double, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(double.Stop)
	var machines [2]*machine
	var logs [2]hears
	var urls [2]string
	for i := range machines {
		m := aboard(t).with("DECKLOG_DEVICE=deck")
		m.url = double.URL() + "&views=" + filepath.Join(m.dir, "ledger", "views.db")
		logs[i] = hears{"another machine goes by this one's name", make(chan struct{}, 1)}
		_, url, socket := m.logged(logs[i])
		m.url, urls[i], machines[i] = socket, url, m
	}
	for i, m := range machines {
		select {
		case <-logs[i].heard:
		case <-t.Context().Done():
			t.Fatal("nothing is logged")
		}
		if level, says, fix := m.diagnosed("ledger name"); level != "warning" || !strings.Contains(says, "deck") || !strings.Contains(fix, "DECKLOG_DEVICE") {
			t.Errorf("doctor says %s: %s: %s", level, says, fix)
		}
	}
	secret, err := token.OfMachine(filepath.Join(machines[0].dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	away := machines[1].with("DECKLOG_TOKEN=" + secret)
	away.url = urls[1]
	code, out, errs := away.ran("peers", "--json")
	var failed struct {
		Error struct{ Code, Message string }
	}
	if away.read(out, &failed); code != 1 || failed.Error.Code != "bad_token" || !strings.Contains(failed.Error.Message, "no token of this machine, deck:") {
		t.Errorf("with a token of the other machine it is %d %s%s", code, out, errs)
	}
}
