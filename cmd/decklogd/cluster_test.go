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
func (m *machine) diagnosed(check string) (level, says, fix string) {
	m.Helper()
	var report struct {
		Lines []struct{ About, Check, Level, Says, Fix string }
	}
	_, out, _ := m.ran("doctor", "--json")
	m.read(out, &report)
	for _, l := range report.Lines {
		if l.About == "ledger" && l.Check == check {
			return l.Level, l.Says, l.Fix
		}
	}
	m.Fatalf("doctor says nothing of the ledger's %s: %s", check, out)
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
	m.until(url+"/metrics", http.StatusOK, "decklog_cluster_live 1")
	if level, says, _ := m.diagnosed("cluster"); level != "ok" {
		t.Errorf("doctor says %s: %s", level, says)
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
	if level, says, fix := m.diagnosed("cluster"); level != "fault" || !strings.Contains(says, "stale") || fix == "" {
		t.Errorf("doctor says %s: %s: %s", level, says, fix)
	}

	// The machine starts again meanwhile.
	_ = server.Process.Signal(syscall.SIGTERM)
	if err := server.Wait(); err != nil {
		t.Fatal(err)
	}
	m.url = cluster
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
