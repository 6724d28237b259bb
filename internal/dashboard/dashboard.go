package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// Desk is the part of the operations that the dashboard asks for.
type Desk interface {
	Threads(ops.ThreadsRequest) (projections.ThreadsView, *commands.Refusal, error)
	Mailboxes(ops.MailboxesRequest) (projections.MailboxesView, *commands.Refusal, error)
	Refusals(ops.RefusalsRequest) (projections.RefusalsView, *commands.Refusal, error)
	Health(ops.HealthRequest) (projections.HealthView, *commands.Refusal, error)

	Thread(ops.ThreadRequest) (projections.ThreadView, *commands.Refusal, error)
	Driver(ops.DriverRequest) (projections.DriverView, *commands.Refusal, error)
	Owed(ops.OwedRequest) (projections.OwedView, *commands.Refusal, error)
	Inbox(ops.InboxRequest) (projections.InboxView, *commands.Refusal, error)
	Events(q ops.EventsRequest, visit func(events.Recorded) error) (events.Position, *commands.Refusal, error)
	Policy() (ops.PolicyInForce, error)
	End() (events.Position, error)
	Past(ctx context.Context, after events.Position) error

	NewCommand() events.CommandID
	Send(ops.SendRequest) (commands.SendReceipt, *commands.Refusal, error)
	JudgeRouting(context.Context, events.MessageID) (receipt ops.DrivingReceipt, asked bool, refused *commands.Refusal, err error)
	Ack(ops.AckRequest) (ops.AckReceipt, *commands.Refusal, error)
	PlaceSticker(ops.StickerRequest) (ops.DrivingReceipt, *commands.Refusal, error)
	RemoveSticker(ops.StickerRequest) (ops.DrivingReceipt, *commands.Refusal, error)
	AcceptHandoff(ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error)
	DeclineHandoff(ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error)
	CloseHandoff(ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error)
	CloseOwed(ops.CloseOwedRequest) (ops.Receipt, *commands.Refusal, error)
}

// Viewer is who looks, as its token says: a session, a seat or a person. Without a
// name it is whoever the operations find that asks.
type Viewer struct {
	Name     events.Participant
	MayWrite bool // it is shown what it can do, and may do it
	// Expires is when its token is good no more; nil: it is good until it is revoked.
	Expires *events.Time
}

// Audit is what the latest audit of the whole ledger said.
type Audit struct {
	OK       bool
	Position events.Position // up to which it looked
	Time     events.Time
	Fault    string // the first thing that was wrong; empty: nothing
}

// ErrToken says that a token opens nothing here, or does so no more.
var ErrToken = errors.New("this token opens nothing here")

// Config is what the dashboard is given.
type Config struct {
	// Open gives the ledger and the viewer of a token: at the login, at every page,
	// and again and again while a live page is kept up to date, so that a token that
	// was revoked shows nothing more. ErrToken refuses it; another error says that
	// the machine failed.
	Open func(r *http.Request, token string) (Desk, Viewer, error)
	Now  func() events.Time
	// Audited gives the latest audit; false while there was none. It may be nil.
	Audited func() (Audit, bool)
	// Failed is told what went wrong while a request was answered. It may be nil.
	Failed func(r *http.Request, err error)
	// Stop, when it is closed, ends the live streams. It may be nil.
	Stop <-chan struct{}
	// Heartbeat is how long a live stream is silent at most. 0: HeartbeatDefault.
	Heartbeat time.Duration
}

// HeartbeatDefault is how long a live stream is silent at most.
const HeartbeatDefault = 15 * time.Second

// The cookies: the token, and the theme, which holds light or dark.
const (
	TokenCookie = "decklog_token"
	ThemeCookie = "decklog_theme"
)

// CookieMax is how long a browser keeps a token, unless that ends before.
const CookieMax = 90 * 24 * time.Hour

// TokenBytesMax bounds a token, as it comes in a form or a cookie.
const TokenBytesMax = 512

// FormBytesMax bounds the body of a form: the longest message that is admitted, as
// a form writes it, fits.
const FormBytesMax = 1 << 20

// dashboard answers the requests.
type dashboard struct {
	Config
	pages   map[string]*templates
	cross   *http.CrossOriginProtection
	sitting sitting
}

// New makes the dashboard. It answers "/" and what lies under it. A path that it does
// not have is 404, and a method that a path does not take 405, with or without a
// token: whoever asks by mistake, such as a probe of a server's health, is not told
// that all is well. A policy for the content is set on every
// answer: only scripts and styles of its own are run, and none that stands in a page.
func New(c Config) http.Handler {
	if c.Heartbeat == 0 {
		c.Heartbeat = HeartbeatDefault
	}
	d := &dashboard{Config: c, pages: parse(), cross: http.NewCrossOriginProtection()}
	m := http.NewServeMux()
	m.HandleFunc("GET /assets/{name}", d.asset)
	m.HandleFunc("POST /login", d.login)
	m.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusSeeOther) })
	m.HandleFunc("POST /logout", d.logout)
	m.HandleFunc("POST /theme", d.theme)
	m.HandleFunc("GET /live", d.live)
	for pattern, show := range map[string]func(*visit) error{
		"GET /{$}":                   (*visit).threads,
		"GET /threads/{id}":          (*visit).thread,
		"GET /owed":                  (*visit).owed,
		"GET /mailboxes":             (*visit).mailboxes,
		"GET /mailboxes/{who}":       (*visit).mailbox,
		"GET /refusals":              (*visit).refusals,
		"GET /health":                (*visit).health,
		"GET /keys":                  (*visit).keys,
		"GET /new":                   (*visit).compose,
		"POST /new":                  (*visit).begin,
		"POST /threads/{id}/write":   (*visit).write,
		"POST /threads/{id}/sticker": (*visit).sticker,
		"POST /threads/{id}/ack":     (*visit).ack,
		"POST /threads/{id}/handoff": (*visit).handoff,
		"POST /threads/{id}/owed":    (*visit).closeOwed,
	} {
		m.HandleFunc(pattern, d.page(show))
	}
	m.HandleFunc("/", d.elsewhere(m))
	return d.safe(m)
}

// policy says what a browser may do with a page: nothing but show it with the
// dashboard's own style and script, and talk to where it came from.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// safe sets what a browser must know of every answer, and refuses what another site
// made a browser ask for.
func (d *dashboard) safe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // with none at all, a browser hides where a form came from
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := d.cross.Check(r); err != nil {
			http.Error(w, "This form was sent by another site, and was refused. Open the dashboard and do it there.", http.StatusForbidden)
			return
		}
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, FormBytesMax)
		}
		next.ServeHTTP(w, r)
	})
}

// token is the cookie's value; empty when there is none that could be a token.
func token(r *http.Request) string {
	c, err := r.Cookie(TokenCookie)
	if err != nil || len(c.Value) > TokenBytesMax {
		return ""
	}
	return c.Value
}

// formToken is what every form of a session carries. It cannot be told without the
// token, nor the token from it, and it stands as long as the token does.
func formToken(token string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("decklog form v1"))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

func (d *dashboard) failed(r *http.Request, err error) {
	if d.Failed != nil {
		d.Failed(r, err)
	}
}

// page wraps what shows a page: it needs a token, of which a page without one is
// only the form that takes it.
func (d *dashboard) page(show func(*visit) error) http.HandlerFunc {
	return d.answer(http.StatusOK, show)
}

// elsewhere answers what no other pattern does.
func (d *dashboard) elsewhere(m *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		if takes := methods(m, r); len(takes) > 0 {
			status = http.StatusMethodNotAllowed
			w.Header().Set("Allow", strings.Join(takes, ", "))
		}
		d.answer(status, func(v *visit) error { return v.nowhere(status) })(w, r)
	}
}

// methods are those that the path of a request takes; none: it is no path of here.
func methods(m *http.ServeMux, r *http.Request) (takes []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if _, pattern := m.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" && pattern != "/" {
			takes = append(takes, method)
		}
	}
	return takes
}

// answer answers with what a page shows, or with the form that takes a token. A
// status that is not 200 stands, whether there is a token or not.
func (d *dashboard) answer(status int, show func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secret := token(r)
		v := &visit{dashboard: d, w: w, r: r, page: page{Now: d.Now(), Theme: themeOf(r), Path: again(r), BeatMS: d.Heartbeat.Milliseconds()}}
		if secret == "" {
			v.shell(status, "")
			return
		}
		desk, viewer, err := d.Open(r, secret)
		switch {
		case errors.Is(err, ErrToken):
			v.shell(status, "The token that this browser kept opens nothing any more.")
			return
		case err != nil:
			v.broken(err)
			return
		}
		v.desk, v.Viewer, v.FormToken = desk, viewer, formToken(secret)
		if err := v.surroundings(); err != nil {
			v.broken(err)
			return
		}
		if status == http.StatusOK && r.Method == http.MethodPost && !v.mayPost() {
			return
		}
		if err := show(v); err != nil {
			v.broken(err)
		}
	}
}

// again is the address of a page, without what a command before it did.
func again(r *http.Request) string {
	u := url.URL{Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	if q := u.Query(); q.Has("did") {
		q.Del("did")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// shell is the page of somebody without a token. A script that asks for a page's
// main part is told by the status.
func (v *visit) shell(status int, says string) {
	if v.r.Header.Get("Decklog-Part") != "" {
		http.Error(v.w, "no token", http.StatusUnauthorized)
		return
	}
	next := "/"
	v.Title = "Open the log"
	switch {
	case status != http.StatusOK:
		v.Title = nothingLies(status)
		says = v.Title + ": " + v.r.Method + " " + v.Path
	case v.r.Method == http.MethodPost:
		status, says = http.StatusUnauthorized, "Nothing was sent: the token is missing, or opens nothing any more."
	case v.r.URL.Path != "/login":
		next = v.r.URL.RequestURI()
	}
	v.render(status, "shell", shellPage{Says: says, Next: next})
}

type shellPage struct{ Says, Next string }

// login takes a token from the form and keeps it in a cookie that no script can read.
func (d *dashboard) login(w http.ResponseWriter, r *http.Request) {
	v := &visit{dashboard: d, w: w, r: r, page: page{Now: d.Now(), Theme: themeOf(r), Path: "/"}}
	v.Title = "Open the log"
	next := local(r.PostFormValue("next"))
	secret := strings.TrimSpace(r.PostFormValue("token"))
	says := ""
	switch {
	case secret == "":
		says = "Paste a token first."
	case len(secret) > TokenBytesMax || strings.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c) }):
		says = "That is no token: one is a line of letters, digits and underscores."
	default:
		_, viewer, err := d.Open(r, secret)
		switch {
		case err == nil:
			http.SetCookie(w, &http.Cookie{
				Name: TokenCookie, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil, MaxAge: kept(viewer, v.Now),
			})
			http.Redirect(w, r, next, http.StatusSeeOther)
			return
		case !errors.Is(err, ErrToken):
			v.broken(err)
			return
		}
		says = "This token opens nothing here. It may be mistyped, revoked or over."
	}
	v.render(http.StatusUnauthorized, "shell", shellPage{Says: says, Next: next})
}

// kept is for how many seconds a browser keeps a token: no longer than it is good.
func kept(v Viewer, now events.Time) int {
	keep := CookieMax
	if v.Expires != nil {
		keep = max(min(keep, v.Expires.Sub(now)), time.Second)
	}
	return int(keep / time.Second)
}

func (d *dashboard) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: TokenCookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil, MaxAge: -1,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// theme keeps which theme is wanted, and goes back to where it was asked from.
func (d *dashboard) theme(w http.ResponseWriter, r *http.Request) {
	c := &http.Cookie{
		Name: ThemeCookie, Value: r.PostFormValue("theme"), Path: "/", SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil, HttpOnly: true, MaxAge: 365 * 24 * 3600,
	}
	if c.Value != "light" && c.Value != "dark" {
		c.Value, c.MaxAge = "", -1 // as the system has it
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, local(r.PostFormValue("back")), http.StatusSeeOther)
}

func themeOf(r *http.Request) string {
	if c, err := r.Cookie(ThemeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// local is an address on this site; "/" when it would lead anywhere else.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
