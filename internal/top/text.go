package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"decklog/events"
	"decklog/internal/render"
)

// The styles. Each is one of the sixteen colours, or none: what they mean stands
// beside them in words.
var (
	plain   = lipgloss.NewStyle()
	strong  = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	chosen  = lipgloss.NewStyle().Reverse(true)
	alarm   = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	fine    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	named   = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
)

// line makes one line of a text that anybody may have written.
func line(s string) string {
	return strings.TrimSpace(render.Terminal(strings.NewReplacer("\n", " ", "\t", " ").Replace(s)))
}

// lines makes lines of a text that anybody may have written, none longer than width.
func lines(s string, width int) []string {
	s = strings.ReplaceAll(render.Terminal(s), "\t", "    ")
	return strings.Split(ansi.Wrap(strings.TrimRight(s, "\n"), max(8, width), ""), "\n")
}

// cell is a text in so many columns, cut with an ellipsis where it is longer.
func cell(s string, width int) string {
	s = ansi.Truncate(s, width, "…")
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// wide is how many columns a text takes, whatever its style.
func wide(s string) int { return ansi.StringWidth(s) }

// stripped is a text without its style.
func stripped(s string) string { return ansi.Strip(s) }

// age says how long ago a moment was, in its largest unit or two; a moment that
// lies ahead, because a clock went back, was just now.
func age(t, now events.Time) string { return span(now.Sub(t)) }

func span(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// short is the beginning of an id, enough for eyes and for a prefix.
func short[ID ~string](id ID) string {
	if _, is := events.ParseUUID(string(id)); is {
		return string(id[:8])
	}
	return line(string(id))
}

func bytes(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d B", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
}
