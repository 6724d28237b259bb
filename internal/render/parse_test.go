package render_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// block is one frame as a strict reader finds it, with the lines after it.
type block struct {
	tag        string
	attributes map[string]string
	body       string
	refs       []string
	hints      []string
}

var (
	tagPattern       = regexp.MustCompile(`^<(decklog-[a-z]+)((?: [a-z_]+="[^"<>]*")*)(/?)>`)
	attributePattern = regexp.MustCompile(` ([a-z_]+)="([^"]*)"`)
	referencePattern = regexp.MustCompile(`^&(?:amp|lt|gt|quot|#x[0-9A-F]+);`)
)

// parse reads back what Text wrote, and takes nothing else. It shares no code
// with the renderer and knows none of its tables.
func parse(text string) ([]block, error) {
	if strings.HasPrefix(text, "[") {
		return parseLines(text)
	}
	if err := harmless(text); err != nil {
		return nil, err
	}
	var blocks []block
	for {
		b, rest, err := parseBlock(text)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		if rest == "" {
			return blocks, nil
		}
		var found bool
		if text, found = strings.CutPrefix(rest, "\n\n"); !found {
			return nil, fmt.Errorf("no blank line before %.40q", rest)
		}
	}
}

func parseBlock(text string) (b block, rest string, err error) {
	b, empty, rest, err := parseTag(text)
	if err != nil {
		return b, "", err
	}
	if !empty {
		if b.body, b.refs, rest, err = parseContent(b.tag, rest); err != nil {
			return b, "", err
		}
	}
	after, rest, more := strings.Cut(rest, "\n\n")
	if more {
		rest = "\n\n" + rest
	}
	if strings.ContainsAny(after, "<>&") {
		return b, "", fmt.Errorf("markup after the frame: %q", after)
	}
	if after != "" {
		hints, found := strings.CutPrefix(after, "\n")
		if !found {
			return b, "", fmt.Errorf("text on the line of the end tag: %q", after)
		}
		b.hints = strings.Split(hints, "\n")
	}
	return b, rest, nil
}

func parseTag(text string) (b block, empty bool, rest string, err error) {
	m := tagPattern.FindStringSubmatch(text)
	if m == nil {
		return b, false, "", fmt.Errorf("no tag at %.80q", text)
	}
	b = block{tag: m[1], attributes: map[string]string{}}
	for _, a := range attributePattern.FindAllStringSubmatch(m[2], -1) {
		if _, twice := b.attributes[a[1]]; twice {
			return b, false, "", fmt.Errorf("attribute %s stands twice", a[1])
		}
		if strings.ContainsAny(a[2], "\n\t") {
			return b, false, "", fmt.Errorf("attribute %s has a line break or tab: %q", a[1], a[2])
		}
		if b.attributes[a[1]], err = unescape(a[2]); err != nil {
			return b, false, "", err
		}
	}
	return b, m[3] == "/", text[len(m[0]):], nil
}

func parseContent(tag, text string) (body string, refs []string, rest string, err error) {
	text, found := strings.CutPrefix(text, "\n")
	if !found {
		return "", nil, "", fmt.Errorf("body on the line of the tag: %.40q", text)
	}
	end := strings.IndexAny(text, "<>")
	if end < 1 || text[end-1] != '\n' {
		return "", nil, "", fmt.Errorf("body does not end with its line: %q", text)
	}
	if body, err = unescape(text[:end-1]); err != nil {
		return "", nil, "", err
	}
	text = text[end:]
	for strings.HasPrefix(text, "<decklog-ref") {
		b, empty, rest, err := parseTag(text)
		if err != nil || !empty || len(b.attributes) != 1 {
			return "", nil, "", fmt.Errorf("no ref at %.80q: %v", text, err)
		}
		refs = append(refs, b.attributes["address"])
		if text, found = strings.CutPrefix(rest, "\n"); !found {
			return "", nil, "", fmt.Errorf("text on the line of a ref: %.40q", rest)
		}
	}
	if text, found = strings.CutPrefix(text, "</"+tag+">"); !found {
		return "", nil, "", fmt.Errorf("no end of %s at %.80q", tag, text)
	}
	return body, refs, text, nil
}

// unescape takes only the references that the renderer may write.
func unescape(s string) (string, error) {
	var b strings.Builder
	for {
		at := strings.IndexByte(s, '&')
		if at < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:at])
		s = s[at:]
		ref := referencePattern.FindString(s)
		switch ref {
		case "":
			return "", fmt.Errorf("a bare or cut reference: %.20q", s)
		case "&amp;":
			b.WriteByte('&')
		case "&lt;":
			b.WriteByte('<')
		case "&gt;":
			b.WriteByte('>')
		case "&quot;":
			b.WriteByte('"')
		default:
			r, err := strconv.ParseUint(ref[3:len(ref)-1], 16, 21)
			if err != nil {
				return "", err
			}
			b.WriteRune(rune(r))
		}
		s = s[len(ref):]
	}
}

// lookalikes are angle brackets of other names, listed by hand once more so
// that a line lost from the renderer's table is missed here.
const lookalikes = "«»‹›˂˃˱˲≪≫≮≯≺≻⊰⊱⋖⋗⋘⋙〈〉❬❭❮❯❰❱⟨⟩⟪⟫⦑⦒⦓⦔⦕⦖⧀⧁⧼⧽⨠⩹⩺⩻⩼⪡⪢⪤⪥⪦⪧⪻⪼⫷⫸Ⲵⲵ⸖" +
	"\u2329\u232a\u3008\u3009《》㇛︽︾︿﹀﹤﹥＜＞ᐳᐴᐵᐶᐷᐸᐹᑀᑁᑂᑃᑄᑅᑆᑇᔌ᚛᚜ᚲ𖼿𝈶𝈷𡿨"

// harmless says whether nothing in a text acts on its reader unseen, nor looks
// like a bracket and is none.
func harmless(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("no UTF-8: %q", text)
	}
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
		case r < 0x20, r >= 0x7f && r < 0xa0,
			r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
			r >= 0xe0000 && r <= 0xe007f:
			return fmt.Errorf("%U stands as itself", r)
		case strings.ContainsRune(lookalikes, r):
			return fmt.Errorf("look-alike %U stands as itself", r)
		}
	}
	return nil
}
