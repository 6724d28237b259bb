package render_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"decklog/internal/render"
)

var markups = []render.Markup{render.Tags, render.Lines}

// parseLines reads back what Lines.Text wrote, line by line, and takes nothing
// else. What is behind a bar is somebody's words, and everything else decklog's:
// that is all that it goes by.
func parseLines(text string) (blocks []block, err error) {
	if strings.ContainsAny(text, "<>") {
		return nil, fmt.Errorf("an angle bracket in %q", text)
	}
	if err := harmless(text); err != nil {
		return nil, err
	}
	for _, chunk := range strings.Split(text, "\n\n") {
		b, err := parseLinesBlock(strings.Split(chunk, "\n"))
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

var lineTagPattern = regexp.MustCompile(`^\[(decklog-[a-z]+)((?: [a-z_]+="[^"]*")*)(/?)\]$`)

func parseLineTag(line string) (b block, empty bool, err error) {
	m := lineTagPattern.FindStringSubmatch(line)
	if m == nil {
		return b, false, fmt.Errorf("no tag is %.80q", line)
	}
	b = block{tag: m[1], attributes: map[string]string{}}
	for _, a := range attributePattern.FindAllStringSubmatch(m[2], -1) {
		if _, twice := b.attributes[a[1]]; twice {
			return b, false, fmt.Errorf("attribute %s stands twice", a[1])
		}
		if b.attributes[a[1]], err = unescape(a[2]); err != nil {
			return b, false, err
		}
	}
	return b, m[3] == "/", nil
}

func parseLinesBlock(lines []string) (b block, err error) {
	b, empty, err := parseLineTag(lines[0])
	if err != nil {
		return b, err
	}
	lines = lines[1:]
	if !empty {
		end := slices.Index(lines, "[/"+b.tag+"]")
		if end < 0 {
			return b, fmt.Errorf("no end of %s in %q", b.tag, lines)
		}
		if err := b.takeLines(lines[:end]); err != nil {
			return b, err
		}
		lines = lines[end+1:]
	}
	for _, hint := range lines {
		if hint == "" || strings.HasPrefix(hint, "|") || strings.HasPrefix(hint, "[") || strings.Contains(hint, "&") {
			return b, fmt.Errorf("after the frame stands %q", hint)
		}
	}
	if len(lines) > 0 {
		b.hints = lines
	}
	return b, nil
}

// takeLines takes what stands in a frame: somebody's lines, then refs; or, in
// an instruction, decklog's own words.
func (b *block) takeLines(lines []string) (err error) {
	if b.tag == "decklog-instruction" {
		b.body = strings.Join(lines, "\n")
		return nil
	}
	var body []string
	for len(lines) > 0 && strings.HasPrefix(lines[0], "| ") {
		body, lines = append(body, lines[0][len("| "):]), lines[1:]
	}
	if body == nil {
		return fmt.Errorf("%s without a body: %q", b.tag, lines)
	}
	if b.body, err = unescape(strings.Join(body, "\n")); err != nil {
		return err
	}
	for _, line := range lines {
		ref, empty, err := parseLineTag(line)
		if err != nil || !empty || ref.tag != "decklog-ref" || len(ref.attributes) != 1 {
			return fmt.Errorf("no ref is %.80q: %v", line, err)
		}
		b.refs = append(b.refs, ref.attributes["address"])
	}
	return nil
}
