package metrics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"decklog/events"
	"decklog/internal/memory"
	"decklog/projections"
)

// full has every metric that there is.
func full(t *testing.T) *stage {
	s := newStage(t, memory.New(projections.Project))
	s.join(alice, "smith")
	s.observe()
	s.Verified(0, s.now)
	s.Commit(1, 1, time.Millisecond)
	s.Observe(events.Recorded{Position: 1000, Event: events.DriverMoved{}})
	for _, status := range []int{200, 404, 500} {
		s.Request("POST /v1/messages", "POST", status, time.Millisecond)
	}
	s.Opened("events")
	s.lag = &events.Lag{Live: true}
	return s
}

func (s *stage) text() []byte {
	s.t.Helper()
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		s.t.Fatal(answer.Code)
	}
	return answer.Body.Bytes()
}

func TestNamesUnitsAndHelpAreAsPrometheusWantsThem(t *testing.T) {
	text := full(t).text()
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for name, of := range parse(t, text) {
		if !strings.HasPrefix(name, "decklog_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("%s is none of ours", name)
		}
		if strings.HasPrefix(name, "decklog_") && !strings.HasSuffix(of.help, ".") {
			t.Errorf("%s says %q, which is no sentence", name, of.help)
		}
	}
	// A counter says from when on it counts.
	for name, of := range parse(t, text) {
		if strings.HasPrefix(name, "decklog_") && strings.HasSuffix(name, "_total") && !strings.Contains(of.help, "since this process began") {
			t.Errorf("%s does not say since when it counts: %s", name, of.help)
		}
	}
}

// family is a metric as it is told: its labels and the values that they have.
type family struct {
	help   string
	labels map[string][]string
}

func parse(t *testing.T, text []byte) map[string]family {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]family{}
	for name, f := range parsed {
		of := family{help: f.GetHelp(), labels: map[string][]string{}}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				of.labels[l.GetName()] = append(of.labels[l.GetName()], l.GetValue())
			}
			if h := m.GetHistogram(); h != nil {
				for _, b := range h.Bucket {
					of.labels["le"] = append(of.labels["le"], fmt.Sprint(b.GetUpperBound()))
				}
			}
		}
		families[name] = of
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if f.GetType().String() == "HISTOGRAM" {
				families[name+part] = of
			}
		}
	}
	return families
}

var (
	ofOurs   = regexp.MustCompile(`\b((?:decklog|process|go)_[a-z_]+)(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|group_left) *\(([a-z_, ]+)\)`)
)

// foreign are labels that Prometheus gives, and the words of our labels that only
// a test or a dashboard has.
var foreign = []string{"instance", "job", "alertname", "alertstate"}

// checkExpression holds an expression against the metrics that there are: the
// names, the labels, and the values of labels that are meant.
func checkExpression(t *testing.T, where, expr string, families map[string]family) {
	t.Helper()
	labels := slices.Clone(foreign)
	found := ofOurs.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric is in %s", where, expr)
	}
	for _, m := range found {
		of, known := families[m[1]]
		if !known {
			t.Errorf("%s: there is no metric %s", where, m[1])
			continue
		}
		for name := range of.labels {
			labels = append(labels, name)
		}
		for _, match := range matcher.FindAllStringSubmatch(m[2], -1) {
			name, sign, value := match[1], match[2], match[3]
			if slices.Contains(foreign, name) {
				continue
			}
			if of.labels[name] == nil {
				t.Errorf("%s: %s has no label %s", where, m[1], name)
			}
			hits := 0
			for _, has := range of.labels[name] {
				if sign[1:] == "~" && regexp.MustCompile("^(?:"+value+")$").MatchString(has) || sign[1:] != "~" && has == value {
					hits++
				}
			}
			if hits == 0 {
				t.Errorf("%s: %s of %s is never %s", where, name, m[1], value)
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, name := range strings.Split(group[1], ",") {
			if name = strings.TrimSpace(name); !slices.Contains(labels, name) {
				t.Errorf("%s: nothing in it has the label %s that it groups by", where, name)
			}
		}
	}
}

// dashboard is what of a dashboard's file matters here.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Query json.RawMessage }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               *struct{ Type, UID string }
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			RefID      string
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("board", "decklog.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDashboardShowsMetricsThatThereAre(t *testing.T) {
	d, families := readDashboard(t), parse(t, full(t).text())
	if d.UID == "" || d.Title == "" || len(d.Panels) < 20 {
		t.Fatalf("it has %d panels, and is called %q", len(d.Panels), d.Title)
	}
	shown := ""
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q is there twice, or has no name", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s lies at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Errorf("%s lies over %s", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s has no description, no expression, or a data source of its own", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: an expression is named twice, or asks a data source of its own", p.Title)
			}
			refs[target.RefID] = true
			checkExpression(t, p.Title, target.Expr, families)
			shown += target.Expr + "\n"
		}
	}
	for name := range families {
		told := strings.HasPrefix(name, "decklog_") && !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count")
		if told && !strings.Contains(shown, name) && !slices.Contains([]string{"decklog_verify_faults", "decklog_verify_timestamp_seconds", "decklog_commit_events"}, name) {
			t.Errorf("nothing shows %s", name)
		}
	}
}

// rules gives the expressions of the rules, one after the other, by the names of
// their alerts.
func rules(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("board", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]map[string]string{}
	var at map[string]string
	last := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "#"):
		case found && key == "- alert":
			at = map[string]string{}
			alerts[value] = at
		case at != nil && found && slices.Contains([]string{"expr", "for", "labels", "summary", "description", "runbook"}, key):
			last, at[key] = key, strings.TrimPrefix(value, "|")
		case at != nil && last == "expr" && !strings.HasSuffix(line, ":"):
			at["expr"] += line + "\n"
		}
	}
	return alerts
}

func TestTheAlertsAreMadeOfMetricsThatThereAre(t *testing.T) {
	families, alerts := parse(t, full(t).text()), rules(t)
	if len(alerts) < 15 {
		t.Fatalf("%d alerts were found", len(alerts))
	}
	played, err := os.ReadFile(filepath.Join("board", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range alerts {
		checkExpression(t, name, a["expr"], families)
		if a["summary"] == "" || a["description"] == "" || len(a["runbook"]) < 60 || !strings.Contains(a["labels"], "severity: page") && !strings.Contains(a["labels"], "severity: ticket") {
			t.Errorf("%s does not say what it is, or what to do", name)
		}
		if !strings.Contains(string(played), `alertname="`+name+`"`) {
			t.Errorf("no test makes %s fire", name)
		}
	}
	for _, series := range regexp.MustCompile(`series: '(decklog_[^']*)'`).FindAllStringSubmatch(string(played), -1) {
		name, _, _ := strings.Cut(series[1], "{")
		if _, known := families[name]; !known {
			t.Errorf("the tests of the alerts play %s, which there is not", name)
		}
	}
}

func promtool(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on PATH; Debian has it in its package prometheus")
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolFindsNothingWrongWithTheMetrics(t *testing.T) {
	promtool(t, bytes.NewReader(full(t).text()), "check", "metrics")
}

func TestPromtoolPlaysTheAlerts(t *testing.T) {
	promtool(t, nil, "check", "rules", filepath.Join("board", "alerts.yaml"))
	promtool(t, nil, "test", "rules", filepath.Join("board", "alerts_test.yaml"))
}

func TestPromtoolCanReadEveryExpressionOfTheDashboard(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for _, p := range readDashboard(t).Panels {
		for n, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr)
			quoted, err := json.Marshal(expr)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "      - record: panel:p%d:%d\n        expr: %s\n", p.ID, n, quoted)
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", file)
}
