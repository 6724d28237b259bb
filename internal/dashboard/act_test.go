package dashboard_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

func (s *stage) thread(id events.ThreadID) projections.ThreadView {
	s.t.Helper()
	view, r, err := s.Thread(ops.ThreadRequest{ID: string(id)})
	s.ok(r, err)
	return view
}

func (s *stage) end() events.Position {
	s.t.Helper()
	end, err := s.End()
	if err != nil {
		s.t.Fatal(err)
	}
	return end
}

func TestAPersonWritesIntoAThreadWithoutAScript(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	before := len(s.thread(asked).Messages)
	form := b.form(b.page(here), here+"/write", "textarea")
	a := b.post(here+"/write", with(form, "body", "It is\r\nurgent.", "intent", "inform"))
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.to, here+"?did=sent") {
		t.Fatalf("gave %d to %q: %s", a.status, a.to, a.body)
	}
	view := s.thread(asked)
	last := view.Messages[len(view.Messages)-1]
	if len(view.Messages) != before+1 || last.From != "@ana" || last.Body != "It is\nurgent." || last.To != smith && last.To != "@smith" {
		t.Errorf("the message is %+v", last.Shown)
	}
	holds(t, b.page(strings.Split(a.to, "#")[0]), "A receipt is no reply.", "urgent.")
	lacks(t, b.page(here+"?did=anything"), "anything")
}

func TestAFormSentTwiceHappensOnce(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	before := len(s.thread(asked).Messages)
	form := with(b.form(b.page(here), here+"/write", "textarea"), "body", "Once.", "intent", "inform")
	var all sync.WaitGroup
	answers := make([]answer, 4)
	for i := range answers {
		all.Go(func() { answers[i] = b.post(here+"/write", form) })
	}
	all.Wait()
	for _, a := range answers {
		if a.status != http.StatusSeeOther {
			t.Errorf("one gave %d: %s", a.status, a.body)
		}
	}
	if n := len(s.thread(asked).Messages); n != before+1 {
		t.Errorf("%d messages came of it", n-before)
	}
}

func TestAMentionIsJudgedAfterItsReceipt(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	s.verdict = events.VerdictRoute
	form := with(b.form(b.page(here), here+"/write", "textarea"), "body", "@trinity can you take this?", "intent", "inform")
	if a := b.post(here+"/write", form); !strings.Contains(a.to, "did=routed") {
		t.Fatalf("gave %d to %q: %s", a.status, a.to, a.body)
	}
	holds(t, b.page(here), "mention: route")

	// The first message of a thread may hold a mention as well.
	form = with(b.form(b.page("/new"), "/new", "textarea"), "body", "@trinity is the sync up?", "intent", "request", "to", "")
	a := b.post("/new", form)
	if !strings.HasSuffix(a.to, "?did=routed") {
		t.Fatalf("a new thread gave %d to %q: %s", a.status, a.to, a.body)
	}
	holds(t, b.page(a.to), "mention: route")
}

func TestARefusalStandsBesideItsFormWithWhatWasTyped(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	form := with(b.form(b.page(here), here+"/write", "textarea"), "body", "To <nobody>.", "intent", "request", "to", "@nobody-here")
	a := b.post(here+"/write", form)
	if a.status != http.StatusNotFound {
		t.Fatalf("gave %d: %s", a.status, a.body)
	}
	holds(t, a.body, "unknown_recipient", "Fix", "decklog peers", ">To &lt;nobody&gt;.</textarea>", `value="@nobody-here"`, `value="request" checked`, "data-frozen")
	again := b.form(a.body, here+"/write", "textarea")
	if again.Get("command") == form.Get("command") || again.Get("reply_to") != form.Get("reply_to") {
		t.Errorf("the form carries %v, and carried %v", again, form)
	}
	if a := b.post(here+"/write", with(again, "body", "To smith.", "intent", "inform", "to", "")); a.status != http.StatusSeeOther {
		t.Errorf("mended, it gave %d", a.status)
	}
}

func TestADoneClosesTheThread(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	late := with(b.form(b.page(here), here+"/write", "textarea"), "body", "One more.", "intent", "inform")
	form := with(b.form(b.page(here), here+"/write", "textarea"), "body", "Thank you.", "intent", "done")
	if a := b.post(here+"/write", form); !strings.Contains(a.to, "did=closed-thread") {
		t.Fatalf("gave %d to %q: %s", a.status, a.to, a.body)
	}
	page := b.page(here)
	holds(t, page, `<span class="chip done">done</span>`, "closed the thread", "takes no more words")
	lacks(t, page, here+"/write")
	// Who had the page open already is told, and keeps what was typed.
	if a := b.post(here+"/write", late); a.status != http.StatusConflict {
		t.Errorf("a word after done gave %d", a.status)
	} else {
		holds(t, a.body, "reply_to_done", "One more.")
	}
}

func TestAReplyAnswersTheMessageThatWasChosen(t *testing.T) {
	s := newStage(t)
	alert, _ := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(alert)
	root := s.thread(alert).Root
	page := b.page(here + "?reply=" + string(root))
	form := with(b.form(page, here+"/write", "textarea"), "body", "Who was paged?", "intent", "inform")
	if form.Get("reply_to") != string(root) {
		t.Fatalf("the form answers %s", form.Get("reply_to"))
	}
	if a := b.post(here+"/write", with(form, "to", "@smith")); a.status != http.StatusSeeOther {
		t.Fatalf("gave %d: %s", a.status, a.body)
	}
	messages := s.thread(alert).Messages
	if last := messages[len(messages)-1]; last.ReplyTo != root {
		t.Errorf("it answers %s", last.ReplyTo)
	}
}

func TestAPersonReStickersAThread(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	sticker := func(seat, do, did string) {
		t.Helper()
		form := b.form(b.page(here), here+"/sticker", `value="`+seat+`"`)
		if a := b.post(here+"/sticker", with(form, "do", do)); a.status != http.StatusSeeOther || !strings.HasSuffix(a.to, did) {
			t.Fatalf("%s %s gave %d to %q: %s", do, seat, a.status, a.to, a.body)
		}
	}
	sticker("trinity", "place", "did=placed")
	if d := s.thread(asked).Driver; d.Seat == nil || *d.Seat != "trinity" {
		t.Errorf("the driver is %+v", d)
	}
	sticker("trinity", "place", "did=unchanged")
	sticker("trinity", "remove", "did=removed")
	if d := s.thread(asked).Driver; d.Seat == nil || *d.Seat != "smith" {
		t.Errorf("the driver is %+v", d)
	}
	form := with(b.form(b.page(here), here+"/sticker", `value="tank"`), "do", "remove")
	a := b.post(here+"/sticker", form)
	if a.status != http.StatusNotFound {
		t.Errorf("taking off what does not lie there gave %d", a.status)
	}
	holds(t, a.body, `<details class="fold" id="stick" open>`, "not_found")
}

func TestAPersonAcksAMessage(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(asked)
	form := b.form(b.page(here), here+"/ack", "Will act")
	if a := b.post(here+"/ack", with(form, "ack", "no_input")); a.status != http.StatusSeeOther {
		t.Fatalf("gave %d: %s", a.status, a.body)
	}
	acks := s.thread(asked).Acks
	if last := acks[len(acks)-1]; last.By != "@ana" || last.Ack != events.AckNoInput {
		t.Errorf("the ack is %+v", last)
	}
	holds(t, b.page(here), "has no input")
}

// offered makes an offer from smith to trinity in the thread of the request.
func (s *stage) offered(id events.ThreadID) string {
	s.t.Helper()
	return s.offeredBy(smith, id)
}

func (s *stage) offeredBy(session string, id events.ThreadID) string {
	s.t.Helper()
	offer, r, err := s.OfferHandoff(ops.OfferRequest{Asker: ops.Asker{As: session}, Thread: string(id), To: "trinity", Reason: ops.Text("It is your sync.")})
	s.ok(r, err)
	return offer.ID
}

func (s *stage) handoffState(id events.ThreadID, handoff string) (state projections.HandoffState, driver string) {
	s.t.Helper()
	view := s.thread(id)
	for _, h := range view.Handoffs {
		if string(h.ID) == handoff {
			state = h.State
		}
	}
	if view.Driver.Seat != nil {
		driver = *view.Driver.Seat
	}
	return state, driver
}

func TestTheSeatThatIsAskedAcceptsOrDeclines(t *testing.T) {
	for do, want := range map[string]struct {
		state  projections.HandoffState
		driver string
	}{
		"accept":  {projections.HandoffIsAccepted, "trinity"},
		"decline": {projections.HandoffIsDeclined, "smith"},
	} {
		s := newStage(t)
		_, asked := s.drama()
		offer := s.offered(asked)
		b := s.visitor(seated)
		here := "/threads/" + string(asked)
		form := b.form(b.page(here), here+"/handoff", ">Decline<")
		if a := b.post(here+"/handoff", with(form, "do", do, "reason", "My lane is another.")); a.status != http.StatusSeeOther {
			t.Fatalf("%s gave %d: %s", do, a.status, a.body)
		}
		if state, driver := s.handoffState(asked, offer); state != want.state || driver != want.driver {
			t.Errorf("after %s it is %s, driven by %s", do, state, driver)
		}
		if do == "decline" {
			holds(t, b.page(here), "My lane is another.")
		}
	}
}

func TestAPersonMovesOrEndsAnOfferAndClosesAHandOff(t *testing.T) {
	for button, want := range map[string]string{"Accept for @trinity": "trinity", "Decline": "smith"} {
		s := newStage(t)
		_, asked := s.drama()
		offer := s.offered(asked)
		b := s.visitor(writes)
		here := "/threads/" + string(asked)
		page := b.page(here)
		form := b.form(page, here+"/handoff", ">"+button+"<")
		do := map[string]string{"Accept for @trinity": "give", "Decline": "close"}[button]
		if a := b.post(here+"/handoff", with(form, "do", do)); a.status != http.StatusSeeOther {
			t.Fatalf("%s gave %d: %s", button, a.status, a.body)
		}
		if state, driver := s.handoffState(asked, offer); state != projections.HandoffIsClosed || driver != want {
			t.Errorf("after %s it is %s, driven by %s", button, state, driver)
		}
	}
	s := newStage(t)
	alert, _ := s.drama()
	b := s.visitor(writes)
	here := "/threads/" + string(alert)
	form := b.form(b.page(here), here+"/handoff", "Close the hand-off")
	if a := b.post(here+"/handoff", with(form, "do", "close")); a.status != http.StatusSeeOther {
		t.Fatalf("closing gave %d: %s", a.status, a.body)
	}
	again := b.post(here+"/handoff", with(form, "do", "accept", "command", string(s.NewCommand())))
	if again.status != http.StatusForbidden {
		t.Errorf("a person who accepts for a seat got %d", again.status)
	}
	if a := b.post(here+"/handoff", with(form, "do", "nothing", "command", string(s.NewCommand()))); a.status != http.StatusBadRequest {
		t.Errorf("an act that is none gave %d", a.status)
	}
}

func TestAPersonClosesWhatIsOwed(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b := s.visitor(writes)
	another := s.say("@ana", request("@smith", "And this?"))
	for path, thread := range map[string]events.ThreadID{"/owed": asked, "/threads/" + string(another.Thread): another.Thread} {
		action := "/threads/" + string(thread) + "/owed"
		form := b.form(b.page(path), action, "Close the item")
		a := b.post(action, with(form, "reason", " "))
		if a.status != http.StatusBadRequest {
			t.Errorf("without a reason it gave %d", a.status)
		}
		holds(t, a.body, "the reason is missing", "open>")
		form = b.form(a.body, action, "Close the item")
		if a := b.post(action, with(form, "reason", "Settled by phone.")); a.status != http.StatusSeeOther || a.to != path+"?did=owed-closed" {
			t.Fatalf("gave %d to %q: %s", a.status, a.to, a.body)
		}
	}
	for _, thread := range []events.ThreadID{asked, another.Thread} {
		if view := s.thread(thread); len(view.Owed) != 0 {
			t.Errorf("owed is still %+v", view.Owed)
		}
	}
}

func TestAPersonBeginsAThread(t *testing.T) {
	s := newStage(t)
	s.drama()
	b := s.visitor(writes)
	form := b.form(b.page("/new"), "/new", "textarea")
	a := b.post("/new", with(form, "body", "Is the guest-card sync whole?", "intent", "request", "to", ""))
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.to, "/threads/") {
		t.Fatalf("gave %d to %q: %s", a.status, a.to, a.body)
	}
	holds(t, b.page(a.to), "Is the guest-card sync whole?", "Recorded.")
	form = b.form(b.page("/new"), "/new", "textarea")
	a = b.post("/new", with(form, "body", "To nobody.", "intent", "inform", "to", "@nobody-here"))
	if a.status != http.StatusNotFound {
		t.Errorf("to nobody gave %d", a.status)
	}
	holds(t, a.body, "unknown_recipient", ">To nobody.</textarea>", `value="@nobody-here"`, `value="inform" checked`)
}

func TestATokenThatReadsSeesNoFormAndSendsNone(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	author, b := s.visitor(writes), s.visitor(reads)
	for _, path := range []string{"/", "/threads/" + string(alert), "/threads/" + string(asked), "/owed", "/mailboxes"} {
		for _, f := range strings.Split(b.page(path), "<form")[1:] {
			if !strings.Contains(f, `action="/theme"`) && !strings.Contains(f, `action="/logout"`) && !strings.Contains(f, `method="get"`) {
				t.Errorf("%s shows a form: %.120s", path, f)
			}
		}
	}
	here := "/threads/" + string(asked)
	form := with(author.form(author.page(here), here+"/write", "textarea"), "body", "Forged.", "intent", "inform")
	end := s.end()
	if a := b.post(here+"/write", form); a.status != http.StatusForbidden {
		t.Errorf("it gave %d", a.status)
	}
	if s.end() != end {
		t.Error("something was recorded")
	}
}

var (
	postPattern   = regexp.MustCompile(`(?s)<form[^>]*\bmethod="post" action="(/(?:threads/[^"]*|new))"[^>]*>(.*?)</form>`)
	buttonPattern = regexp.MustCompile(`<button(?: class="main")?(?: name="([^"]*)" value="([^"]*)")?`)
)

// act is a button of a form, as a viewer finds it on a page.
type act struct{ page, action, holds, name, value string }

// acts are all that somebody is offered to do.
func (b *browser) acts(pages ...string) (all []act) {
	b.t.Helper()
	for _, page := range pages {
		for _, f := range postPattern.FindAllStringSubmatch(b.page(page), -1) {
			about := ""
			for _, in := range inputPattern.FindAllStringSubmatch(f[2], -1) {
				if in[1] != "form" && in[1] != "command" {
					about = `name="` + in[1] + `" value="` + in[2] + `"`
				}
			}
			for _, button := range buttonPattern.FindAllStringSubmatch(f[2], -1) {
				all = append(all, act{page, f[1], about, button[1], button[2]})
			}
		}
	}
	return all
}

// staged is a ledger with an offer of each kind, in which the same happens each time.
func staged(t *testing.T) (s *stage, pages []string) {
	s = newStage(t)
	alert, asked := s.drama()
	s.offered(asked)
	s.after(2 * time.Minute)
	closed, r, err := s.Threads(ops.ThreadsRequest{State: "done"})
	s.ok(r, err)
	return s, []string{"/threads/" + string(alert), "/threads/" + string(asked), "/threads/" + string(closed.Threads[0].Thread), "/owed"}
}

// What cannot succeed is not offered: everything that is shown to somebody is done,
// each on a ledger of its own, and nothing of it is refused.
func TestWhatIsOfferedToAViewerIsNotRefused(t *testing.T) {
	for _, c := range []struct {
		token  string
		shown  []string // at least these
		hidden []string
	}{
		{writes, []string{"write", "sticker", "ack", "handoff", "owed", "new"}, nil},
		{seated, []string{"write", "ack", "handoff", "new"}, []string{"owed"}},
		{onSeat, []string{"write", "sticker", "ack", "handoff", "new"}, []string{"owed"}},
		{loosed, []string{"ack", "new"}, []string{"owed", "sticker", "handoff"}},
		{vacant, nil, []string{"write", "sticker", "ack", "handoff", "owed", "new"}},
		{robot, nil, []string{"write", "sticker", "ack", "handoff", "owed", "new"}},
		{reads, nil, []string{"write", "sticker", "ack", "handoff", "owed", "new"}},
	} {
		s, pages := staged(t)
		b := s.visitor(c.token)
		if a := b.get("/new"); (a.status == http.StatusOK) != slices.Contains(c.shown, "new") {
			t.Errorf("%s: the form of a new thread gave %d", c.token, a.status)
		} else if a.status == http.StatusOK {
			pages = append(pages, "/new")
		}
		all, kinds := b.acts(pages...), map[string]bool{}
		for _, one := range all {
			kinds[one.action[strings.LastIndexByte(one.action, '/')+1:]] = true
		}
		for _, kind := range c.shown {
			if !kinds[kind] {
				t.Errorf("%s is offered no %s", c.token, kind)
			}
		}
		for _, kind := range c.hidden {
			if kinds[kind] {
				t.Errorf("%s is offered %s", c.token, kind)
			}
		}
		if home := b.page("/"); strings.Contains(home, `href="/new"`) != slices.Contains(c.shown, "new") {
			t.Errorf("%s: the way to a new thread is shown: %t", c.token, !slices.Contains(c.shown, "new"))
		}
		for _, one := range all {
			s, _ := staged(t)
			b := s.visitor(c.token)
			form := with(b.form(b.page(one.page), one.action, one.holds), "body", "It is well.", "reason", "It is settled.", "intent", "inform")
			if one.name != "" {
				form.Set(one.name, one.value)
			}
			if one.page == "/new" {
				form.Set("to", "@neo")
			}
			a := b.post(one.action, form)
			if a.status == http.StatusConflict && strings.Contains(a.body, `name="over" value="1"`) { // another is answering
				a = b.post(one.action, with(b.form(a.body, one.action, "textarea"), "body", "It is well.", "intent", "inform", "over", "1"))
			}
			if a.status != http.StatusSeeOther {
				t.Errorf("%s was offered %+v, and it gave %d: %s", c.token, one, a.status, regexp.MustCompile(`(?s)role="alert".*?</div>`).FindString(a.body))
			}
		}
	}
}

// The newest message may be a request to somebody else: whoever answers that by
// mistake closes what another owes.
func TestAWordAnswersWhatCameToItsWriterElseTheRoot(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	view := s.thread(asked)
	b, other := s.visitor(writes), s.visitor(seated)
	here := "/threads/" + string(asked)
	answers := func(b *browser) string { return b.form(b.page(here), here+"/write", "textarea").Get("reply_to") }
	stub := string(view.Messages[1].ID) // smith's, to ana
	later := s.say("@ana", ops.SendRequest{ReplyTo: string(view.Root), To: "@trinity", Intent: "request", Body: ops.Text("Is it your sync?")})
	if got := answers(b); got != stub {
		t.Errorf("ana answers %s, and %s came to her", got, stub)
	}
	if got := answers(other); got != string(later.ID) {
		t.Errorf("trinity answers %s, and %s came to it", got, later.ID)
	}
	if got := answers(s.visitor(onSeat)); got != string(view.Root) {
		t.Errorf("smith answers %s, and %s came to it", got, view.Root)
	}
	lone := s.say("@neo", request("@smith", "Only of interest to smith."))
	page := b.page("/threads/" + string(lone.Thread))
	if got := b.form(page, "/threads/"+string(lone.Thread)+"/write", "textarea").Get("reply_to"); got != string(lone.ID) {
		t.Errorf("where nothing came to her, she answers %s and not the root", got)
	}
}

// What is refused is shown also where its form is gone meanwhile.
func TestARefusalWhoseFormIsGoneStandsByItself(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	s.offered(asked)
	b := s.visitor(seated)
	here := "/threads/" + string(asked)
	form := with(b.form(b.page(here), here+"/handoff", ">Decline<"), "do", "accept")
	_, r, err := s.PlaceSticker(ops.StickerRequest{Asker: ops.Asker{As: "@ana"}, Thread: string(asked), Seat: "tank"})
	s.ok(r, err)
	a := b.post(here+"/handoff", form)
	if a.status != http.StatusConflict {
		t.Fatalf("gave %d: %s", a.status, a.body)
	}
	if n := strings.Count(a.body, `role="alert"`); n != 1 {
		t.Errorf("it is shown %d times", n)
	}
	holds(t, a.body, "already_decided", "autofocus")
}

func TestAFormOfAnotherSiteOrSessionIsRefused(t *testing.T) {
	s := newStage(t)
	_, asked := s.drama()
	b, other := s.visitor(writes), s.visitor(seated)
	here := "/threads/" + string(asked)
	fresh := func() url.Values {
		return with(b.form(b.page(here), here+"/write", "textarea"), "body", "Forged.", "intent", "inform")
	}
	theirs := other.form(other.page(here), here+"/write", "textarea").Get("form")
	end := s.end()
	for name, try := range map[string]func() answer{
		"another site's": func() answer {
			return b.post(here+"/write", fresh(), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		},
		"a sibling site's": func() answer {
			return b.post(here+"/write", fresh(), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") })
		},
		"another origin's": func() answer {
			return b.post(here+"/write", fresh(), func(r *http.Request) {
				r.Header.Del("Sec-Fetch-Site")
				r.Header.Set("Origin", "http://else.example")
			})
		},
		"without a form token":   func() answer { return b.post(here+"/write", with(fresh(), "form", "")) },
		"with another session's": func() answer { return b.post(here+"/write", with(fresh(), "form", theirs)) },
	} {
		if a := try(); a.status != http.StatusForbidden {
			t.Errorf("%s form gave %d", name, a.status)
		}
	}
	for name, command := range map[string]string{"no command": "", "a command that is none": "x"} {
		if a := b.post(here+"/write", with(fresh(), "command", command)); a.status != http.StatusBadRequest {
			t.Errorf("%s gave %d", name, a.status)
		}
	}
	if a := b.post(here+"/write", with(fresh(), "body", strings.Repeat("x", 2<<20))); a.status != http.StatusBadRequest {
		t.Errorf("2 MiB gave %d", a.status)
	}
	for _, path := range []string{"/login", "/logout", "/theme"} {
		if a := b.post(path, url.Values{}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); a.status != http.StatusForbidden {
			t.Errorf("%s from another site gave %d", path, a.status)
		}
	}
	if s.end() != end {
		t.Error("something was recorded")
	}
	if html.UnescapeString(theirs) == fresh().Get("form") {
		t.Error("two sessions have one form token")
	}
}
