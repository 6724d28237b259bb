package dashboard_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicturesOfEveryPage draws each page at a desk's and a phone's width, in both
// themes, into the folder that DECKLOG_PICTURES names, for eyes to look at.
func TestPicturesOfEveryPage(t *testing.T) {
	folder := os.Getenv("DECKLOG_PICTURES")
	if folder == "" {
		t.Skip("DECKLOG_PICTURES names no folder to draw into")
	}
	s := newStage(t)
	alert, asked := s.drama()
	tab := newChromium(t).tab(t, s, writes)
	pages := map[string]string{
		"threads": "/", "alert": "/threads/" + string(alert), "asked": "/threads/" + string(asked), "replay": "/threads/" + string(alert) + "?at=24",
		"owed": "/owed", "mailboxes": "/mailboxes", "mailbox": "/mailboxes/@smith", "refusals": "/refusals", "health": "/health", "keys": "/keys", "new": "/new", "nowhere": "/nowhere",
	}
	for _, theme := range []string{"light", "dark"} {
		for kind, size := range map[string][2]int64{"desk": {1440, 900}, "phone": {390, 844}} {
			for name, path := range pages {
				tab.looks(size[0], size[1], theme)
				tab.open(path)
				if name == "asked" && kind == "desk" {
					tab.do(chromedp.MouseEvent("mouseMoved", 500, 280))
				}
				tab.call(func(ctx context.Context) error {
					png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
					if err != nil {
						return err
					}
					return os.WriteFile(filepath.Join(folder, name+"-"+kind+"-"+theme+".png"), png, 0o644)
				})
			}
		}
	}
}
