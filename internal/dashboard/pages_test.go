package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/dashboard"
	"decklog/internal/ops"
)

func TestWithoutATokenThereIsNothingButTheFormThatTakesOne(t *testing.T) {
	s := newStage(t)
	alert, _ := s.drama()
	b := s.visitor("")
	for _, path := range []string{"/", "/threads/" + string(alert), "/owed", "/mailboxes", "/mailboxes/@smith", "/refusals", "/health", "/keys", "/new", "/nowhere"} {
		a := b.get(path)
		if want := map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[path == "/nowhere"]; a.status != want {
			t.Errorf("%s gave %d, not %d", path, a.status, want)
		}
		holds(t, a.body, `action="/login"`)
		lacks(t, a.body, "guest-card", "trinity", `data-live`, "Mailboxes")
	}
	if a := b.get("/live"); a.status != http.StatusUnauthorized {
		t.Errorf("/live gave %d", a.status)
	}
	if a := b.get("/", func(r *http.Request) { r.Header.Set("Decklog-Part", "main") }); a.status != http.StatusUnauthorized {
		t.Errorf("a script that asked for a part was given %d", a.status)
	}
	for _, wrong := range []string{"", "dlk_wrong", "not a token", strings.Repeat("x", dashboard.TokenBytesMax+1), "dlk;Path=/"} {
		a := b.post("/login", url.Values{"token": {wrong}})
		if a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" || !strings.Contains(a.body, `role="alert"`) {
			t.Errorf("the token %.20q gave %d, cookie %q", wrong, a.status, a.header.Get("Set-Cookie"))
		}
		if wrong != "" {
			lacks(t, a.body, wrong)
		}
	}
}

func TestALoginKeepsTheTokenWhereNoScriptReadsIt(t *testing.T) {
	s := newStage(t)
	b := s.visitor("")
	a := b.post("/login", url.Values{"token": {" " + writes + "\n"}, "next": {"/owed?kind=reply"}})
	if a.status != http.StatusSeeOther || a.to != "/owed?kind=reply" {
		t.Fatalf("login gave %d to %q", a.status, a.to)
	}
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{dashboard.TokenCookie + "=" + writes, "HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	lacks(t, b.page("/"), writes)
	for _, next := range []string{"https://else.example/", "//else.example/", `/\else.example`, "javascript:alert(1)", "else", "/a\r\nX: y"} {
		if a := b.post("/login", url.Values{"token": {writes}, "next": {next}}); a.to != "/" {
			t.Errorf("next %q led to %q", next, a.to)
		}
	}
	if a := b.post("/logout", url.Values{}); a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logout gave %d, %q", a.status, a.header.Get("Set-Cookie"))
	}
	holds(t, b.page("/"), `action="/login"`)
}

func TestARevokedTokenOpensNothingAtTheNextPage(t *testing.T) {
	s := newStage(t)
	b := s.visitor(writes)
	lacks(t, b.page("/"), `action="/login"`)
	s.revoke(writes)
	holds(t, b.page("/"), `action="/login"`, "opens nothing any more")
}

func TestEveryAnswerTellsABrowserWhatItMayDo(t *testing.T) {
	s := newStage(t)
	b := s.visitor(writes)
	for _, path := range []string{"/", "/nowhere", "/assets/style.css", "/assets/none.css"} {
		h := b.get(path).header
		for _, want := range []string{"default-src 'none'", "style-src 'self'", "script-src 'self'", "connect-src 'self'", "img-src 'self' data:", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), want) {
				t.Errorf("%s: the policy %q lacks %s", path, h.Get("Content-Security-Policy"), want)
			}
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	if c := b.get("/").header.Get("Cache-Control"); c != "no-store" {
		t.Errorf("a page may be kept: %q", c)
	}
}

func TestAnAssetIsKeptForEverUnderTheSumOfItsBytes(t *testing.T) {
	s := newStage(t)
	b := s.visitor(writes)
	page := b.page("/")
	for name, kind := range map[string]string{"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		path := regexp.MustCompile(`/assets/` + regexp.QuoteMeta(name) + `\?v=[0-9a-f]+`).FindString(page)
		if path == "" {
			t.Fatalf("the page names no %s", name)
		}
		a := b.get(path)
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), kind) || !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s gave %d, %v", path, a.status, a.header)
		}
		if a := b.get("/assets/" + name + "?v=old"); strings.Contains(a.header.Get("Cache-Control"), "immutable") {
			t.Errorf("an old version of %s is kept for ever", name)
		}
		tag := a.header.Get("ETag")
		if a := b.get("/assets/"+name, func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); a.status != http.StatusNotModified {
			t.Errorf("%s, not modified, gave %d", name, a.status)
		}
	}
	for _, wrong := range []string{"/assets/", "/assets/none", "/assets/..%2ftemplates%2fframe.html"} {
		if a := b.get(wrong); a.status != http.StatusNotFound {
			t.Errorf("%s gave %d", wrong, a.status)
		}
	}
}

func TestNoPageHoldsAScriptOrAStyleOfItsOwn(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	b := s.visitor(writes)
	inline := regexp.MustCompile(`(?i)<script(?:>| [^>]*>)[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|https?://`)
	for _, path := range []string{"/", "/threads/" + string(alert), "/threads/" + string(asked), "/owed", "/mailboxes", "/mailboxes/@smith", "/refusals", "/health", "/keys", "/new"} {
		page := strings.ReplaceAll(b.page(path), "https://alerts.example/17", "") // a hand-off's link, as text
		if found := inline.FindString(page); found != "" {
			t.Errorf("%s holds %q", path, found)
		}
	}
}

func TestTheThreadsShowDriverTurnOwedAndAge(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	b := s.visitor(reads)
	page := b.page("/")
	row := func(id events.ThreadID) string {
		_, rest, found := strings.Cut(page, `id="t-`+string(id)+`"`)
		if !found {
			t.Fatalf("no row of thread %s", id)
		}
		row, _, _ := strings.Cut(rest, "</li>")
		return row
	}
	holds(t, row(alert), "guest-card delivery: 14 of 20 failed", "driven by @smith", "hue-1", "1 owed", "handed to", "cleared", "#alerts", ">5m<")
	holds(t, row(asked), "The nightly report is empty", "is writing", "1 owed", ">20s<")
	lacks(t, page, "New thread") // this token only reads

	for query, want := range map[string][2]string{
		"state=done":                     {"Which commit fixed", "nightly report"},
		"state=open":                     {"nightly report", "Which commit fixed"},
		"seat=trinity":                   {"Which commit fixed", "nightly report"},
		"text=NIGHTLY":                   {"nightly report", "Which commit fixed"},
		"waiting=1&state=open":           {"nightly report", "Which commit fixed"},
		"who=" + url.QueryEscape("@neo"): {"91 %", "nightly report"},
	} {
		page := b.page("/?" + query)
		holds(t, page, want[0], "Clear")
		lacks(t, page, want[1])
	}
	holds(t, b.page("/?text=nothing+like+that"), "No thread is like that")
	if a := b.get("/?state=half"); a.status != http.StatusBadRequest {
		t.Errorf("a state that is none gave %d", a.status)
	} else {
		holds(t, a.body, "bad_request", "Fix")
	}
}

func TestThreadsAreReadPageByPage(t *testing.T) {
	s := newStage(t)
	s.join(smith, "smith", "codex")
	for i := range 70 {
		if i%25 == 0 {
			s.after(time.Hour) // or the rate stops it
		}
		s.say("@ana", ops.SendRequest{To: "@smith", Body: ops.Text("Thread number " + strconv.Itoa(i) + ".")})
		if i%10 == 9 {
			s.take(smith) // or the mailbox is full
		}
	}
	b := s.visitor(reads)
	path, seen := "/", map[string]bool{}
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	pages := 0
	for path != "" {
		page := b.page(path)
		for _, m := range regexp.MustCompile(`Thread number (\d+)\.`).FindAllStringSubmatch(page, -1) {
			seen[m[1]] = true
		}
		path = ""
		if m := next.FindStringSubmatch(page); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
		pages++
	}
	if len(seen) != 70 || pages != 2 {
		t.Errorf("%d threads on %d pages", len(seen), pages)
	}
}

func TestAThreadTellsAllThatHappenedInIt(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	b := s.visitor(reads)
	page := b.page("/threads/" + string(alert))
	holds(t, page,
		"guest-card delivery: 14 of 20 failed", "Payload", "The sync token has run out.", "delivered to", "edited",
		"placed the sticker of", "offered the work to", "The token is minted in your build.", "accepted the hand-off", "The driver moved from",
		"commit:4f2a9c1d00aa", "asked for a review of", "labelled the commit", "root, low", "it may be merged",
		"was refused", "not_participant", "card: investigating", "owes", "@ana")
	lacks(t, page, "<form class=\"write\"", "Re-sticker", "Will act")
	page = b.page("/threads/" + string(asked))
	holds(t, page, "will act", "working", "held for", "request")

	if a := b.get("/threads/" + string(alert)[:8]); a.status != http.StatusSeeOther || a.to != "/threads/"+string(alert) {
		t.Errorf("a prefix gave %d to %q", a.status, a.to)
	}
	if a := b.get("/threads/ffffffff-0000-4000-8000-000000000000"); a.status != http.StatusNotFound {
		t.Errorf("a thread that is none gave %d", a.status)
	} else {
		holds(t, a.body, "not_found")
	}
}

// positions are the steps that a thread's page marks.
func positions(t *testing.T, page string) []string {
	t.Helper()
	m := regexp.MustCompile(`data-positions="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no steps")
	}
	return strings.Fields(m[1])
}

func TestTheScrubberReplaysAThreadWithoutAScript(t *testing.T) {
	s := newStage(t)
	alert, _ := s.drama()
	b := s.visitor(reads)
	here := "/threads/" + string(alert)
	now := b.page(here)
	steps := positions(t, now)
	if len(steps) < 20 {
		t.Fatalf("%d steps", len(steps))
	}
	link := func(page, rel string) string {
		m := regexp.MustCompile(`rel="` + rel + `" href="([^"]*)"`).FindStringSubmatch(page)
		if m == nil {
			return ""
		}
		return m[1]
	}
	// Back to the first, link by link, and on again: each page is as of its step.
	at := len(steps) - 1
	for path := link(now, "prev"); path != ""; {
		at--
		if path != here+"?at="+steps[at] {
			t.Fatalf("step %d is at %s", at, path)
		}
		page := b.page(path)
		holds(t, page, "As of position", "Back to now")
		path = link(page, "prev")
	}
	if at != 0 {
		t.Fatalf("the links end at step %d", at)
	}
	if link(b.page(here+"?at="+steps[0]), "next") != here+"?at="+steps[1] {
		t.Error("the first step does not lead to the second")
	}

	find := func(typ events.Type) string {
		t.Helper()
		found := ""
		_, r, err := s.Events(ops.EventsRequest{Thread: string(alert), Type: string(typ)}, func(e events.Recorded) error {
			if found == "" {
				found = strconv.FormatInt(int64(e.Position), 10)
			}
			return nil
		})
		s.ok(r, err)
		return found
	}
	before := func(p string) string {
		n, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n - 1)
	}
	// The driver, the deliveries and the refusals are as they were.
	moved := find(events.TypeDriverMoved)
	holds(t, b.page(here+"?at="+before(find(events.TypeHandoffAccepted))), `driven by <span class="who"><svg class="mark hue-2"`)
	holds(t, b.page(here+"?at="+moved), `driven by <span class="who"><svg class="mark hue-1"`)
	leased := find(events.TypeMailboxLeased)
	page := b.page(here + "?at=" + leased)
	holds(t, page, "leased to")
	lacks(t, page, "delivered to", "The sync token")
	holds(t, b.page(here+"?at="+find(events.TypeMailboxConfirmed)), "delivered to")
	refused := find(events.TypeCommandRefused)
	holds(t, b.page(here+"?at="+refused), "was refused", "not_participant")
	lacks(t, b.page(here+"?at="+before(refused)), "was refused") // though the track marks that it comes
	// A moment between two events of the thread, one by the clock, and none.
	holds(t, b.page(here+"?at=2026-11-30T09:03:20Z"), "guest-card delivery")
	if a := b.get(here + "?at=999999"); a.status != http.StatusBadRequest {
		t.Errorf("a position that is none gave %d", a.status)
	}
	if a := b.get(here + "?at=1"); a.status != http.StatusNotFound {
		t.Errorf("a moment before the thread gave %d", a.status)
	}
	// What is past cannot be acted on.
	lacks(t, s.visitor(writes).page(here+"?at="+steps[5]), `action="`+here+`/write"`, "Will act", "Re-sticker")
}

func TestTheOwedBoardIsOldestFirstAndMarksWhatIsOverdue(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	b := s.visitor(reads)
	page := b.page("/owed")
	first, second := strings.Index(page, string(alert)), strings.Index(page, string(asked))
	if first < 0 || second < first {
		t.Errorf("the hand-off at %d, the request at %d", first, second)
	}
	lacks(t, page, "is-over", "past due")
	holds(t, b.page("/owed?kind=handoff"), "a hand-off")
	lacks(t, b.page("/owed?kind=handoff"), string(asked))
	s.after(2 * time.Hour)
	holds(t, b.page("/owed"), "is-over", "3 items are past due", " over")
}

func TestMailboxesShowPresenceSeatsAndPersons(t *testing.T) {
	s := newStage(t)
	s.drama()
	b := s.visitor(reads)
	page := b.page("/mailboxes")
	holds(t, page, "idle", "no hook run seen", "16m ago", "claude-code", "@tank", "nobody", "@ana", "owner", "1 waiting")
	// What waits for somebody is one step from the number that says so.
	links := regexp.MustCompile(`href="(/mailboxes/([^"?]*)\?state=waiting)">(\d+) waiting`).FindAllStringSubmatch(page, -1)
	seen := map[string]bool{}
	for _, l := range links {
		seen[l[2]] = true
		page := b.page(l[1])
		// A session takes its seat's post as well.
		if n := strconv.Itoa(strings.Count(page, `<li class="row`)); n != l[3] && (l[2][0] == '@' || n < l[3]) {
			t.Errorf("%s waiting for %s, and %s shows %s", l[3], l[2], l[1], n)
		}
		lacks(t, page, "s-delivered", "s-read")
	}
	if len(links) < 3 || !seen["@ana"] || !seen["@tank"] {
		t.Errorf("the numbers lead to %v", links)
	}
	page = b.page("/mailboxes/@tank")
	holds(t, page, "91 %", "s-held")
	holds(t, b.page("/mailboxes/"+loose+"?sent=1"), "Thank you.")
	if a := b.get("/mailboxes/nobody-here-at-all"); a.status != http.StatusNotFound {
		t.Errorf("a mailbox of nobody gave %d", a.status)
	}
}

func TestRefusalsAreCountedByCodeAndLeadToTheirMoment(t *testing.T) {
	s := newStage(t)
	alert, _ := s.drama()
	b := s.visitor(reads)
	page := b.page("/refusals")
	holds(t, page, "1 command was refused", "not_participant", loose+" takes no part in thread", "/threads/"+string(alert)+"?at=")
	lacks(t, page, "Fix", "start a thread of your own") // what it advised then, nobody recorded
	path := regexp.MustCompile(`/threads/[0-9a-f-]+\?at=\d+`).FindString(page)
	holds(t, b.page(path), "not_participant", "As of position")
	holds(t, b.page("/refusals?code=duplicate"), "Nothing was refused with that code")
	if a := b.get("/refusals?code=nosuchcode"); a.status != http.StatusBadRequest {
		t.Errorf("a code that is none gave %d", a.status)
	}
}

func TestHealthTellsWhatTheAuditFound(t *testing.T) {
	var audit *dashboard.Audit
	s := newStage(t, func(c *dashboard.Config) {
		c.Audited = func() (dashboard.Audit, bool) {
			if audit == nil {
				return dashboard.Audit{}, false
			}
			return *audit, true
		}
	})
	s.drama()
	b := s.visitor(reads)
	holds(t, b.page("/health"), "not verified since", "Threads open", "4\u202f000 bytes", "guest-card")
	audit = &dashboard.Audit{OK: true, Position: 12, Time: s.clock()}
	holds(t, b.page("/health"), "verified up to 12")
	audit = &dashboard.Audit{Position: 7, Time: s.clock(), Fault: "event 7: its digest is another"}
	holds(t, b.page("/health"), "verify found a fault", "event 7: its digest is another")
}

func TestTheThemeIsKeptAndWrittenByTheServer(t *testing.T) {
	s := newStage(t)
	b := s.visitor(reads)
	lacks(t, b.page("/"), "data-theme")
	for _, theme := range []string{"dark", "light"} {
		if a := b.post("/theme", url.Values{"theme": {theme}, "back": {"/owed"}}); a.to != "/owed" {
			t.Errorf("led to %q", a.to)
		}
		holds(t, b.page("/"), `<html lang="en" data-theme="`+theme+`">`)
	}
	b.post("/theme", url.Values{"theme": {"auto"}, "back": {"//else.example"}})
	lacks(t, b.page("/"), "data-theme")
}

// hostile are bodies that would do something if a page let them.
var hostile = []string{
	"<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">",
	"\"><svg onload=alert(1)><a href=\"javascript:alert(1)\">here</a>",
	"</textarea></title></style></script><script>alert(1)</script>",
	"{{.FormToken}} {{template \"frame\" .}} ${alert(1)}",
	"\u202eevil\u202c and \u2066this\u2069 \u200bzero\ufeff \U000e0041tag \u00adsoft",
}

func TestABodyIsTextAndNothingOfItIsHidden(t *testing.T) {
	s := newStage(t)
	s.join(smith, "smith", "<script>alert(1)</script>")
	b := s.visitor(writes)
	for _, body := range hostile {
		sent := s.say("@ana", request("@smith", body))
		s.say(smith, reply(sent.ID, "Seen: "+body))
		for _, path := range []string{"/", "/threads/" + string(sent.Thread), "/mailboxes/@smith", "/mailboxes", "/owed"} {
			page := b.page(path)
			if n := strings.Count(page, "<script"); n != 1 { // the page's own
				t.Errorf("%s holds %d scripts", path, n)
			}
			lacks(t, page, "<img", "<svg onload", `href="javascript:`, "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041", "\u00ad")
		}
	}
	page := strings.ReplaceAll(b.page("/"), "&#43;", "+")
	holds(t, page, "&lt;script&gt;document.title", "{{.FormToken}}", ">U+202E</b>evil", "U+200B", "U+E0041", "U+00AD")
}

func TestALongBodyUnfoldsAndALongLineIsWhole(t *testing.T) {
	s := newStage(t)
	s.join(smith, "smith", "codex")
	policy, err := s.Policy()
	if err != nil {
		t.Fatal(err)
	}
	policy.Policy.Limits.BodyBytes = 0
	_, r, err := s.AdoptPolicy(ops.Asker{As: "@ana"}, policy.Policy)
	s.ok(r, err)
	line := strings.Repeat("é0123456", 100_000/9)
	sent := s.say("@ana", ops.SendRequest{To: "@smith", Body: ops.Text(line)})
	page := s.visitor(reads).page("/threads/" + string(sent.Thread))
	holds(t, page, "KiB more</summary>")
	lacks(t, page, "\ufffd")
	article := page[strings.Index(page, "<article"):strings.Index(page, "</article>")]
	if n := strings.Count(article, "é0123456") + strings.Count(article, "</bdi></div>")/2 - 1; n < 100_000/9-1 {
		t.Errorf("%d of %d pieces are there", n, 100_000/9)
	}
}

func TestAPageThatIsNoneSaysSo(t *testing.T) {
	s := newStage(t)
	b := s.visitor(reads)
	a := b.get("/<b>nowhere")
	if a.status != http.StatusNotFound {
		t.Errorf("status %d", a.status)
	}
	lacks(t, a.body, "<b>nowhere")
}

// A probe that asks at a wrong path, or in a wrong way, must not be told that all is
// well: with and without a token.
func TestAWrongPathOrMethodIsNeverAnsweredAsIfAllWereWell(t *testing.T) {
	s := newStage(t)
	end := s.end()
	for _, token := range []string{"", writes, reads, "gone"} {
		b := s.visitor(map[string]string{"gone": writes}[token] + strings.ReplaceAll(token, "gone", ""))
		if token == "gone" {
			s.revoke(writes)
		}
		for _, path := range []string{"/health/", "/ready", "/readyzz", "/metric", "/favicon.ico", "/threads", "/threads/", "/threads/x/y/z", "/owed/1", "/login/x", "/assets", "/.env", "/index.html"} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, http.MethodDelete} {
				if a := b.do(method, path, nil); a.status != http.StatusNotFound || a.header.Get("Allow") != "" {
					t.Errorf("%q: %s %s gave %d, Allow %q", token, method, path, a.status, a.header.Get("Allow"))
				}
			}
		}
		for path, allow := range map[string]string{
			"/": "GET, HEAD", "/owed": "GET, HEAD", "/health": "GET, HEAD", "/threads/x": "GET, HEAD", "/assets/style.css": "GET, HEAD", "/live": "GET, HEAD",
			"/threads/x/write": "POST", "/logout": "POST", "/new": "GET, HEAD, POST", "/login": "GET, HEAD, POST",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
				if strings.Contains(allow, method) {
					continue
				}
				if a := b.do(method, path, nil); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow {
					t.Errorf("%q: %s %s gave %d, Allow %q", token, method, path, a.status, a.header.Get("Allow"))
				}
			}
		}
		if token == "" || token == "gone" {
			if a := b.post("/new", url.Values{"body": {"x"}}); a.status != http.StatusUnauthorized {
				t.Errorf("%q: a form that is sent gave %d", token, a.status)
			}
		}
	}
	if s.end() != end {
		t.Error("something was recorded")
	}
}

func TestACookieLastsNoLongerThanItsToken(t *testing.T) {
	s := newStage(t)
	for token, want := range map[string]string{brief: "Max-Age=3600", writes: "Max-Age=7776000"} {
		a := s.visitor("").post("/login", url.Values{"token": {token}})
		if cookie := a.header.Get("Set-Cookie"); !strings.HasSuffix(strings.Split(cookie, "; HttpOnly")[0], want) {
			t.Errorf("the cookie is %q, not with %s", cookie, want)
		}
	}
}

// Who has not read decklog's design finds out why somebody drives; who has, finds
// the term.
func TestWhyASeatDrivesIsSaidInWords(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	b := s.visitor(writes)
	page := b.page("/threads/" + string(asked))
	holds(t, page, `<span title="solo">no other seat has written here</span>`)
	_, r, err := s.PlaceSticker(ops.StickerRequest{Asker: ops.Asker{As: "@ana"}, Thread: string(asked), Seat: "trinity"})
	s.ok(r, err)
	holds(t, b.page("/"), `title="person, human">a person’s sticker<`, `title="handoff">it was handed over<`)
	offer := s.offeredBy(smith, alert)
	_, r, err = s.PlaceSticker(ops.StickerRequest{Asker: ops.Asker{As: "@ana"}, Thread: string(alert), Seat: "tank"})
	s.ok(r, err)
	page = b.page("/threads/" + string(alert))
	_, item, _ := strings.Cut(page, `id="h-`+offer+`"`)
	item, _, _ = strings.Cut(item, "</div>")
	holds(t, item, `<span title="lapsed">another act moved the driver</span>`)
	for _, page := range []string{page, b.page("/threads/" + string(asked)), b.page("/")} {
		text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")
		if found := regexp.MustCompile(`\b(solo|area, map|human|creditor|lapsed|\(person\))`).FindString(text); found != "" {
			t.Errorf("a page says %q", found)
		}
	}
}
