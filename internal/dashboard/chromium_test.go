package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"decklog/internal/dashboard"
)

// patience ends a test that waits in vain. It bounds nothing that is promised.
const patience = 3 * time.Minute

// chromium is a real browser.
type chromium struct{ ctx context.Context }

// newChromium starts the browser. Where there is none the test fails: the page is
// made for browsers, and nothing else tells whether it works in one.
func newChromium(t *testing.T) *chromium {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a real browser")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Fatal("no Chromium is on PATH: install it (on Debian: apt-get install chromium); -short leaves these tests out")
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
		// A mouse, which a browser without a screen does not think it has.
		chromedp.Flag("blink-settings", "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"),
	))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &chromium{ctx}
}

// tab is a tab with cookies of its own, and what its page complained of.
type tab struct {
	t   *testing.T
	s   *stage
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	dialogs    int
}

// tab opens a tab of its own that holds a token; none when it is empty.
func (c *chromium) tab(t *testing.T, s *stage, token string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, s: s, ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	if token != "" {
		yes := true
		b.call(func(ctx context.Context) error {
			_, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{
				Name: dashboard.TokenCookie, Value: token, URL: s.server.URL, HTTPOnly: &yes, SameSite: network.CookieSameSiteStrict,
			})
			return err
		})
	}
	return b
}

// hear notes what the page complains of. It is called by who reads the browser's
// messages, and must not wait.
func (b *tab) hear(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console %s: %v", e.Type, e.Args))
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("%s %s: %s %s", e.Entry.Level, e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *page.EventJavascriptDialogOpening:
		b.dialogs++
	}
}

// silent demands that the page has complained of nothing, asked nothing and run
// nothing that it should not have.
func (b *tab) silent() {
	b.t.Helper()
	b.call(func(ctx context.Context) error { // what came before its answer was heard
		_, err := chromedp.Call(ctx, page.GetNavigationHistory, cdp.Empty{})
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Errorf("the page complained: %s", c)
	}
	if b.dialogs > 0 {
		b.t.Errorf("the page opened %d dialogs", b.dialogs)
	}
}

func (b *tab) call(f func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := f(ctx); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("%v\n%s", err, strings.Join(b.complaints, "\n"))
	}
}

// do does what somebody does in the tab.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.call(func(ctx context.Context) error { return chromedp.Do(ctx, steps...) })
}

// open opens a page of the dashboard, and waits for its script.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.s.server.URL + path))
	b.until(`document.body.dataset.script === "ready" || !document.querySelector("script")`)
}

// until waits until an expression is true in the page. It is asked for from here: where
// scripts are off no timer of the page's would ask again.
func (b *tab) until(expression string) {
	b.t.Helper()
	b.call(func(ctx context.Context) error {
		whole := `(() => { try { return ` + expression + ` } catch { return false } })()` // while a page is made, parts of it are not there
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](whole))
			var away *cdproto.Error
			switch {
			case err == nil && is:
				return nil
			case err != nil && (!errors.As(err, &away) || ctx.Err() != nil): // away: the page was left while it was asked
				return fmt.Errorf("wait until %s: %w", expression, err)
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return fmt.Errorf("wait until %s: %w", expression, ctx.Err())
			}
		}
	})
}

// value evaluates an expression in a page.
func value[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.call(func(ctx context.Context) (err error) {
		v, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression))
		return err
	})
	return v
}

// keys presses keys one after the other, wherever the focus is.
func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// press presses one key that writes a character, as a hand does: where the page takes
// the key for itself, no character is written.
func (b *tab) press(key string) {
	b.t.Helper()
	b.call(func(ctx context.Context) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			p := input.DispatchKeyEventParams{Type: kind, Key: key}
			if kind == input.DispatchKeyEventTypeKeyDown {
				p.Text = key
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// looks sets the size of the window, and which theme the system has.
func (b *tab) looks(width, height int64, theme string) {
	b.t.Helper()
	b.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
		})
		if err != nil {
			return err
		}
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	})
}

// scripts turns the scripts of pages on or off.
func (b *tab) scripts(on bool) {
	b.t.Helper()
	b.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return err
	})
}
