package dashboard_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"decklog/internal/ops"
)

// One browser serves the whole test: each part has a ledger and a tab of its own.
func TestInARealBrowser(t *testing.T) {
	c := newChromium(t)
	for _, part := range []struct {
		what string
		play func(t *testing.T, c *chromium)
	}{
		{"the shell takes a token, and the bar leads to every page", navigation},
		{"a send from outside appears without a reload", liveUpdate},
		{"a live page keeps focus, selection, scroll and half-written text", keeps},
		{"a stream that broke comes again and catches up", reconnects},
		{"a token that is revoked is told", toldOfRevocation},
		{"the slider replays a thread and keeps the address", slider},
		{"nothing of a hostile body is run", hostileBodies},
		{"a 100 kB line wraps", longLine},
		{"everything is done by keyboard alone", keyboard},
		{"reading and acting work without a script", noScript},
		{"what was refused is seen first, with and without a script", refusedIsSeen},
		{"both themes, by the system and by the toggle", themes},
		{"no page is wider than a phone, and text stands out from its ground", phoneAndContrast},
		{"a form that is sent twice happens once", doubleClick},
	} {
		t.Run(part.what, func(t *testing.T) { part.play(t, c) })
	}
}

func navigation(t *testing.T, c *chromium) {
	s := newStage(t)
	alert, _ := s.drama()
	b := c.tab(t, s, "")
	b.open("/owed")
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), writes+kb.Enter))
	b.until(`location.pathname === "/owed" && document.querySelectorAll(".row").length === 3`)
	for link, heading := range map[string]string{"/": "Threads", "/mailboxes": "Mailboxes", "/refusals": "Refusals", "/health": "Health", "/owed": "Owed"} {
		b.do(chromedp.Click(chromedp.CSS(`#pages a[href="` + link + `"]`)))
		b.until(fmt.Sprintf(`document.querySelector("h1").textContent === %q && document.querySelector('[aria-current="page"]').getAttribute("href") === %q`, heading, link))
	}
	b.do(chromedp.Click(chromedp.CSS(`#pages a[href="/"]`)))
	b.until(`location.pathname === "/" && document.body.dataset.script === "ready"`)
	b.do(chromedp.Click(chromedp.CSS("[id='t-" + string(alert) + "'] .go")))
	b.until(`location.pathname === "/threads/` + string(alert) + `"`)
	if read := value[string](b, `document.cookie`); read != "" {
		t.Errorf("a script reads the cookie %q", read)
	}
	b.do(chromedp.Click(chromedp.CSS(".me summary")), chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)))
	b.until(`document.querySelector("#token") !== null`)
	b.silent()
}

func liveUpdate(t *testing.T, c *chromium) {
	s := newStage(t)
	_, asked := s.drama()
	list, thread := c.tab(t, s, reads), c.tab(t, s, reads)
	list.open("/")
	thread.open("/threads/" + string(asked))
	for _, b := range []*tab{list, thread} {
		b.until(`document.querySelector("#live").dataset.state === "live"`)
		value[bool](b, `window.same = true`) // a reload forgets it
	}
	s.say("@ana", ops.SendRequest{ReplyTo: string(s.thread(asked).Root), To: "@smith", Body: ops.Text("Any news of it?")})
	thread.until(`[...document.querySelectorAll(".body")].some((n) => n.textContent === "Any news of it?")`)
	thread.until(`document.querySelector("#said").textContent === "1 new entry in this thread"`)
	s.say("@neo", ops.SendRequest{To: "@smith", Body: ops.Text("A thread that is new.")})
	list.until(`document.querySelector(".row .go").textContent === "A thread that is new."`)
	// A refusal and a driver's move come as well.
	_, refused, err := s.Send(ops.SendRequest{Asker: ops.Asker{As: loose}, ReplyTo: string(s.thread(asked).Root), Body: ops.Text("Me too")})
	if err != nil || refused == nil {
		t.Fatalf("nobody refused it: %v", err)
	}
	thread.until(`document.querySelector(".e-refused") !== null`)
	_, r, err := s.PlaceSticker(ops.StickerRequest{Asker: ops.Asker{As: "@ana"}, Thread: string(asked), Seat: "trinity"})
	s.ok(r, err)
	thread.until(`document.querySelector(".drives .who").textContent === "@trinity"`)
	list.until(`document.querySelector("[id='t-` + string(asked) + `'] .driver").textContent === "@trinity"`)
	for _, b := range []*tab{list, thread} {
		if !value[bool](b, `window.same === true`) {
			t.Error("the page was loaded again")
		}
		b.silent()
	}
}

func keeps(t *testing.T, c *chromium) {
	s := newStage(t)
	alert, _ := s.drama()
	b := c.tab(t, s, writes)
	b.open("/threads/" + string(alert))
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	b.do(chromedp.SendKeys(chromedp.CSS("#body"), "Half a sent"))
	value[bool](b, `(() => { const f = document.querySelector("#body"); f.setSelectionRange(2, 6); document.querySelector("#stick").open = true; return true; })()`)
	command := value[string](b, `document.querySelector("#write input[name=command]").value`)
	top := value[float64](b, `scrollY`)
	s.say(smith, ops.SendRequest{ReplyTo: string(s.thread(alert).Root), To: "@trinity", Body: ops.Text("Behind your back.")})
	b.until(`[...document.querySelectorAll(".body")].some((n) => n.textContent === "Behind your back.")`)
	got := value[string](b, `(() => { const f = document.querySelector("#body"); return [f.value, f.selectionStart, f.selectionEnd, document.activeElement === f, document.querySelector("#stick").open].join("|"); })()`)
	if got != "Half a sent|2|6|true|true" {
		t.Errorf("kept %s", got)
	}
	if now := value[string](b, `document.querySelector("#write input[name=command]").value`); now != command {
		t.Error("the half-written form carries another command")
	}
	if now := value[float64](b, `scrollY`); now != top {
		t.Errorf("the page scrolled from %g to %g", top, now)
	}
	// A row that is in focus stays so while another thread overtakes it.
	b.open("/")
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	b.keys("jj")
	in := value[string](b, `document.activeElement.textContent`)
	s.say("@neo", ops.SendRequest{To: "@smith", Body: ops.Text("Overtakes.")})
	b.until(`document.querySelector(".row .go").textContent === "Overtakes."`)
	if now := value[string](b, `document.activeElement.textContent`); now != in || in == "" {
		t.Errorf("the focus went from %q to %q", in, now)
	}
	b.silent()
}

func reconnects(t *testing.T, c *chromium) {
	s := newStage(t)
	_, asked := s.drama()
	b := c.tab(t, s, reads)
	b.open("/threads/" + string(asked))
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	// Each of these breaks whatever stream there is; the page says so, and what
	// happened meanwhile is there when it is live again.
	for i := range 3 {
		text := "Said while it was away, " + strconv.Itoa(i)
		value[bool](b, `(() => { window.states = []; new MutationObserver((all) => { for (const m of all) states.push(m.target.dataset.state); })
			.observe(document.querySelector("#live"), { attributes: true, attributeFilter: ["data-state"] }); return true; })()`)
		s.server.CloseClientConnections()
		s.say("@ana", ops.SendRequest{ReplyTo: string(s.thread(asked).Root), To: "@smith", Body: ops.Text(text)})
		b.until(`states.includes("reconnecting") && document.querySelector("#live").dataset.state === "live"`)
		b.until(fmt.Sprintf(`[...document.querySelectorAll(".body")].some((n) => n.textContent === %q)`, text))
	}
}

func toldOfRevocation(t *testing.T, c *chromium) {
	s := newStage(t)
	_, asked := s.drama()
	b := c.tab(t, s, reads)
	b.open("/threads/" + string(asked))
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	s.revoke(reads)
	s.say("@ana", ops.SendRequest{ReplyTo: string(s.thread(asked).Root), To: "@smith", Body: ops.Text("Not for you.")})
	b.until(`document.querySelector("#live").dataset.state === "stale" && document.querySelector("#live").textContent === "logged out"`)
	if value[bool](b, `document.body.textContent.includes("Not for you.")`) {
		t.Error("it was shown what came after")
	}
	b.silent()
}

func slider(t *testing.T, c *chromium) {
	s := newStage(t)
	alert, _ := s.drama()
	b := c.tab(t, s, writes)
	here := "/threads/" + string(alert)
	b.open(here)
	b.until(`!document.querySelector("#range").hidden`)
	entries := value[int](b, `document.querySelectorAll(".entry").length`)
	steps := value[[]string](b, `document.querySelector("#range").dataset.positions.split(" ")`)
	value[bool](b, `window.same = true`)
	to := func(i int) {
		t.Helper()
		value[bool](b, fmt.Sprintf(`(() => { const r = document.querySelector("#range"); r.focus(); r.value = %d; r.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`, i))
	}
	to(0)
	b.until(`document.querySelectorAll(".entry").length === 1 && location.search === "?at=` + steps[0] + `"`)
	b.until(`document.querySelector(".drives .who").textContent === "@trinity"`)
	if value[bool](b, `document.querySelector("#write") !== null`) {
		t.Error("the past can be written into")
	}
	for i := range steps { // fast, as a hand drags it: the last one counts
		to(i)
		if i == len(steps)-2 {
			break
		}
	}
	b.until(`location.search === "?at=` + steps[len(steps)-2] + `" && document.querySelector("#scrub-says b").textContent.endsWith(" ` + steps[len(steps)-2] + `")`)
	if !value[bool](b, `document.activeElement === document.querySelector("#range")`) {
		t.Error("the slider lost the focus")
	}
	holds(t, value[string](b, `document.querySelector("#range").getAttribute("aria-valuetext")`), "event "+strconv.Itoa(len(steps)-1)+" of "+strconv.Itoa(len(steps)))
	to(len(steps) - 1)
	b.until(`location.search === "" && document.querySelectorAll(".entry").length === ` + strconv.Itoa(entries))
	// A step mark, a time in the timeline, and the way back.
	b.do(chromedp.Click(chromedp.CSS("#p" + steps[0] + " .at")))
	b.until(`document.querySelectorAll(".entry").length === 1`)
	b.do(chromedp.Click(chromedp.CSS("#now")))
	b.until(`location.search === "" && document.querySelectorAll(".entry").length === ` + strconv.Itoa(entries))
	value[bool](b, `history.back(); true`)
	b.until(`location.search === "?at=` + steps[0] + `" && document.querySelectorAll(".entry").length === 1`)
	b.keys("]")
	b.until(`location.search === "?at=` + steps[1] + `" && document.querySelector("#scrub-says").textContent.includes("event 2 of")`)
	b.keys("[")
	b.until(`location.search === "?at=` + steps[0] + `" && document.querySelector("#scrub-says").textContent.includes("event 1 of")`)
	// While one looks at the past the past stays as it was, and the track grows.
	s.say(smith, ops.SendRequest{ReplyTo: string(s.thread(alert).Root), To: "@trinity", Body: ops.Text("Later.")})
	b.until(`document.querySelector("#range").dataset.positions.split(" ").length > ` + strconv.Itoa(len(steps)))
	if n := value[int](b, `document.querySelectorAll(".entry").length`); n != 1 {
		t.Errorf("%d entries of the past", n)
	}
	b.keys("n")
	b.until(`location.search === "" && [...document.querySelectorAll(".body")].some((n) => n.textContent === "Later.")`)
	if !value[bool](b, `window.same === true`) {
		t.Error("the page was loaded again")
	}
	b.silent()
}

func hostileBodies(t *testing.T, c *chromium) {
	s := newStage(t)
	s.join(smith, "smith", "codex")
	s.join("<img/src=x/onerror=alert(1)>", "", "<script>alert(1)</script>")
	b := c.tab(t, s, writes)
	first := s.say("@ana", request("@smith", "The first."))
	b.open("/threads/" + string(first.Thread))
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	for _, body := range hostile { // into an open page, by the script that swaps it
		s.say(smith, ops.SendRequest{ReplyTo: string(first.ID), Body: ops.Text(body)})
	}
	b.until(`document.querySelectorAll(".body").length === ` + strconv.Itoa(len(hostile)+1))
	for _, body := range hostile {
		s.say("@ana", request("@smith", body))
	}
	for _, path := range []string{"/", "/threads/" + string(first.Thread), "/owed", "/mailboxes", "/mailboxes/@smith", "/refusals", "/threads/" + string(first.Thread) + "?reply=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/?text=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"} {
		b.open(path)
		if n := value[int](b, `document.querySelectorAll("main script, main img, main iframe, main [onload], main [onerror], main a[href^='javascript']").length`); n != 0 {
			t.Errorf("%s holds %d things that a body made", path, n)
		}
		if strings.HasPrefix(value[string](b, `document.title`), "run") {
			t.Errorf("on %s a body was run", path)
		}
	}
	b.silent()
}

func longLine(t *testing.T, c *chromium) {
	s := newStage(t)
	s.join(smith, "smith", "codex")
	policy, err := s.Policy()
	if err != nil {
		t.Fatal(err)
	}
	policy.Policy.Limits.BodyBytes = 0
	_, r, err := s.AdoptPolicy(ops.Asker{As: "@ana"}, policy.Policy)
	s.ok(r, err)
	sent := s.say("@ana", request("@smith", strings.Repeat("0123456789", 10_000)))
	b := c.tab(t, s, writes)
	b.looks(390, 844, "light")
	for _, path := range []string{"/", "/threads/" + string(sent.Thread), "/owed", "/mailboxes/@smith"} {
		b.open(path)
		b.narrow(path)
	}
	b.open("/threads/" + string(sent.Thread))
	b.do(chromedp.Click(chromedp.CSS(".rest summary")))
	b.narrow("the unfolded body")
	if n := value[int](b, `[...document.querySelectorAll(".said .body")].reduce((n, e) => n + e.textContent.length, 0)`); n != 100_000 {
		t.Errorf("%d of 100000 characters are there", n)
	}
	b.silent()
}

// narrow demands that a page does not scroll sideways.
func (b *tab) narrow(what string) {
	b.t.Helper()
	if wide := value[string](b, `(() => {
		const most = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= most) return "";
		return [...document.querySelectorAll("body *")].filter((n) => n.getBoundingClientRect().right > most + 1).slice(0, 5).map((n) => n.outerHTML.slice(0, 120)).join("\n") || "something";
	})()`); wide != "" {
		b.t.Errorf("%s is wider than its window: %s", what, wide)
	}
}

func keyboard(t *testing.T, c *chromium) {
	s := newStage(t)
	_, asked := s.drama()
	b := c.tab(t, s, writes)
	b.open("/")
	b.keys(kb.Tab)
	if at := value[string](b, `document.activeElement.textContent`); at != "Skip to the page" {
		t.Errorf("the first stop is %q", at)
	}
	b.keys(kb.Enter)
	b.until(`document.activeElement.id === "main"`)
	ring := value[string](b, `(() => { document.querySelector(".filter button").focus({ focusVisible: true }); return getComputedStyle(document.activeElement).outlineStyle; })()`)
	if ring != "solid" {
		t.Errorf("the focus is not seen: %s", ring)
	}
	value[bool](b, `document.activeElement.blur(); true`)

	b.keys("j")
	first := value[string](b, `document.activeElement.closest(".row").id`)
	b.keys("j" + kb.ArrowDown + "k")
	if now := value[string](b, `document.activeElement.closest(".row").id`); now == first || now != value[string](b, `document.querySelectorAll(".row")[1].id`) {
		t.Errorf("j, down and k led from %s to %s", first, now)
	}
	b.press("/")
	b.until(`document.activeElement.name === "text"`)
	b.keys("nightly" + kb.Enter)
	b.until(`location.search.includes("text=nightly") && document.body.dataset.script === "ready" && document.querySelectorAll(".row").length === 1`)
	b.keys("j" + kb.Enter)
	b.until(`location.pathname === "/threads/` + string(asked) + `" && document.body.dataset.script === "ready"`)
	b.press("w")
	b.until(`document.activeElement.id === "body"`)
	b.keys("By keys alone: jjgt[]?/")
	b.call(func(ctx context.Context) error {
		return chromedp.Do(ctx, chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(kb.ModifierCtrl)))
	})
	b.until(`document.querySelector(".did") !== null && document.body.dataset.script === "ready"`)
	messages := s.thread(asked).Messages
	if last := messages[len(messages)-1]; last.Body != "By keys alone: jjgt[]?/" || last.From != "@ana" {
		t.Errorf("the last message is %+v", last.Shown)
	}
	b.keys("[")
	b.until(`location.search.startsWith("?at=") && document.querySelector(".is-replay") !== null`)
	b.keys("n")
	b.until(`location.search === "" && document.querySelector(".is-replay") === null`)
	for key, path := range map[string]string{"o": "/owed", "m": "/mailboxes", "r": "/refusals", "h": "/health", "t": "/"} {
		b.keys("g" + key)
		b.until(`location.pathname === "` + path + `" && document.body.dataset.script === "ready"`)
	}
	b.keys("?")
	b.until(`document.querySelector("dialog[open] kbd") !== null`)
	b.keys(kb.Escape)
	b.until(`document.querySelector("dialog[open]") === null`)
	// Landmarks, and names for all that can be done.
	for _, path := range []string{"/", "/threads/" + string(asked), "/owed", "/mailboxes", "/refusals", "/health", "/new"} {
		b.open(path)
		if missing := value[string](b, `(() => {
			const found = [];
			for (const n of ["header", "main", "nav[aria-label]", "h1"]) if (!document.querySelector(n)) found.push("no " + n);
			if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
			for (const n of document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")) {
				if (n.closest("[aria-hidden]")) continue;
				const name = n.getAttribute("aria-label") || n.textContent.trim() || n.labels && [...n.labels].map((l) => l.textContent.trim()).join("") || "";
				if (!name) found.push("no name: " + n.outerHTML.slice(0, 90));
			}
			const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
			for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push("twice: " + id);
			return found.join("; ");
		})()`); missing != "" {
			t.Errorf("%s: %s", path, missing)
		}
	}
	b.silent()
}

func noScript(t *testing.T, c *chromium) {
	s := newStage(t)
	alert, asked := s.drama()
	b := c.tab(t, s, "")
	b.scripts(false)
	b.do(chromedp.Navigate(s.server.URL + "/threads/" + string(asked)))
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), writes), chromedp.Click(chromedp.CSS("button.main")))
	b.do(chromedp.WaitVisible(chromedp.CSS("#tale")))
	if state := value[string](b, `document.querySelector("#live").dataset.state`); state != "still" {
		t.Errorf("without a script the page says %q of itself", state)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#body"), "Without a script."), chromedp.Click(chromedp.CSS("#write button.main")))
	b.do(chromedp.WaitVisible(chromedp.CSS(".did")))
	messages := s.thread(asked).Messages
	if last := messages[len(messages)-1]; last.Body != "Without a script." {
		t.Errorf("the last message is %+v", last.Shown)
	}
	b.do(chromedp.Click(chromedp.CSS("#prev")), chromedp.WaitVisible(chromedp.CSS(".is-replay")), chromedp.Click(chromedp.CSS("#now")), chromedp.WaitVisible(chromedp.CSS("#write")))
	b.do(chromedp.Click(chromedp.CSS("#stick summary")), chromedp.Click(chromedp.CSS(`#stick li:nth-child(2) button`)), chromedp.WaitVisible(chromedp.CSS(".did")))
	if d := s.thread(asked).Driver; d.Seat == nil || *d.Seat != "trinity" {
		t.Errorf("the driver is %+v", d)
	}
	b.do(chromedp.Navigate(s.server.URL+"/threads/"+string(alert)), chromedp.Click(chromedp.CSS(".handoff button")), chromedp.WaitVisible(chromedp.CSS(".did")))
	b.do(chromedp.Navigate(s.server.URL+"/owed"), chromedp.Click(chromedp.CSS(".inline summary")),
		chromedp.SendKeys(chromedp.CSS(".inline[open] input[name=reason]"), "Settled."), chromedp.Click(chromedp.CSS(".inline[open] button")), chromedp.WaitVisible(chromedp.CSS(".did")))
	b.do(chromedp.Click(chromedp.CSS(".theme button")), chromedp.WaitVisible(chromedp.CSS(`html[data-theme="dark"]`)))
}

// refusedIsSeen: a thread is long, and its form stands below it.
func refusedIsSeen(t *testing.T, c *chromium) {
	s := newStage(t)
	_, asked := s.drama()
	for range 3 {
		for range 7 {
			s.say("@ana", ops.SendRequest{ReplyTo: string(s.thread(asked).Root), To: "@smith", Body: ops.Text(strings.Repeat(fmt.Sprintf("Line of %d.\n", s.end()), 12))})
		}
		s.after(2 * time.Hour) // or the rate stops it
		s.take(smith)
	}
	for _, scripts := range []bool{false, true} {
		b := c.tab(t, s, writes)
		b.scripts(scripts)
		b.do(chromedp.Navigate(s.server.URL+"/threads/"+string(asked)), chromedp.WaitVisible(chromedp.CSS("#body")))
		b.do(chromedp.SendKeys(chromedp.CSS("#write input[name=to]"), "@nobody-here"), chromedp.SendKeys(chromedp.CSS("#body"), "To nobody."), chromedp.Click(chromedp.CSS("#write button.main")))
		b.until(`document.querySelector(".trouble") !== null && document.readyState === "complete"`)
		b.until(`document.activeElement === document.querySelector(".trouble")`)
		b.until(`(() => { const r = document.querySelector(".trouble").getBoundingClientRect(); return scrollY > 0 && r.top >= document.querySelector(".scrub").getBoundingClientRect().bottom && r.bottom <= innerHeight; })()`)
	}
}

func themes(t *testing.T, c *chromium) {
	s := newStage(t)
	s.drama()
	b := c.tab(t, s, reads)
	ground := func() string { return value[string](b, `getComputedStyle(document.body).backgroundColor`) }
	const light, dark = "rgb(245, 245, 242)", "rgb(15, 19, 23)"
	for system, want := range map[string]string{"light": light, "dark": dark} {
		b.looks(1440, 900, system)
		b.open("/")
		if got := ground(); got != want {
			t.Errorf("the system is %s, the ground %s", system, got)
		}
	}
	b.looks(1440, 900, "light")
	b.open("/")
	value[bool](b, `window.same = true`)
	for _, want := range []struct{ theme, ground string }{{"dark", dark}, {"light", light}, {"", light}} {
		b.do(chromedp.Click(chromedp.CSS(".theme button")))
		b.until(fmt.Sprintf(`(document.documentElement.dataset.theme || "") === %q && getComputedStyle(document.body).backgroundColor === %q`, want.theme, want.ground))
	}
	if !value[bool](b, `window.same === true`) {
		t.Error("the toggle loaded the page again")
	}
	b.do(chromedp.Click(chromedp.CSS(".theme button")))
	b.until(`document.documentElement.dataset.theme === "dark"`)
	b.open("/owed")
	if got := ground(); got != dark {
		t.Errorf("the toggle was not kept: %s", got)
	}
	b.silent()
}

func phoneAndContrast(t *testing.T, c *chromium) {
	s := newStage(t)
	alert, asked := s.drama()
	s.say("@ana", ops.SendRequest{To: "@smith", Body: ops.Text("https://example.org/" + strings.Repeat("a-long-path-without-a-blank/", 40))})
	b := c.tab(t, s, writes)
	paths := []string{"/", "/threads/" + string(alert), "/threads/" + string(asked), "/threads/" + string(alert) + "?at=24", "/owed", "/mailboxes", "/mailboxes/@smith", "/refusals", "/health", "/keys", "/new", "/nowhere"}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 390, 768, 1440} {
			b.looks(width, 844, theme)
			for _, path := range paths {
				b.open(path)
				b.narrow(path)
				if width != 1440 {
					continue
				}
				if faint := value[string](b, contrast); faint != "" {
					t.Errorf("%s, %s: %s", path, theme, faint)
				}
			}
		}
	}
}

// contrast lists the texts of a page that stand out from their ground by less than
// WCAG asks of AA: 4.5, or 3 of large text.
const contrast = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
	const ground = (n) => { const layers = []; for (; n; n = n.parentElement) { layers.push(parse(getComputedStyle(n).backgroundColor)); } return layers.reverse().reduce((below, l) => over(l, below), [255, 255, 255, 1]); };
	const faint = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const n = walk.currentNode.parentElement;
		if (!walk.currentNode.nodeValue.trim() || n.closest("title, script, datalist, option, span.step, .unseen-text, .skip, [hidden]") || !n.offsetParent) continue;
		const style = getComputedStyle(n), back = ground(n), front = over(parse(style.color), back);
		const [a, b] = [light(front), light(back)], ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
		if (ratio < (large ? 3 : 4.5)) faint.add(ratio.toFixed(2) + " " + n.className + ": " + n.textContent.trim().slice(0, 40));
	}
	return [...faint].join("; ");
})()`

func doubleClick(t *testing.T, c *chromium) {
	s := newStage(t)
	_, asked := s.drama()
	b := c.tab(t, s, writes)
	before := len(s.thread(asked).Messages)
	b.open("/threads/" + string(asked))
	b.do(chromedp.SendKeys(chromedp.CSS("#body"), "Twice."), chromedp.DoubleClick(chromedp.CSS("#write button.main")))
	b.until(`document.querySelector(".did") !== null`)
	if n := len(s.thread(asked).Messages) - before; n != 1 {
		t.Errorf("%d messages came of a double click", n)
	}
	b.silent()
}
