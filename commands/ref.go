package commands

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// isAddress says whether a ref is an address. What begins with commit or file
// is no session of a harness of that name.
func isAddress(ref string) bool {
	kind, place, _ := strings.Cut(ref, ":")
	shape := refShapes()[kind]
	if shape == nil {
		shape, place = refShapes()[""], ref
	}
	return shape.MatchString(place)
}

// refShapes are what addresses look like, by what they begin with; compiled when
// a message first has one.
var refShapes = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"commit": regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`),
		"file":   regexp.MustCompile(`^[^\n\t]+$`),
		"":       regexp.MustCompile(`^[a-z][a-z0-9-]*:[^\s/]+(/[0-9]+(:[0-9]+)?)?$`),
	}
})

// refEscapesMax bounds how many of a ref's characters take more than one when
// it is shown. A ref stands whole in the frame, and the frame must stay small
// enough for every harness.
const refEscapesMax = 16

// shownWhole says whether a ref can stand whole in a frame.
func shownWhole(ref string) bool {
	escapes := 0
	for _, r := range ref {
		switch {
		case r == '"' || r == '<' || r == '>' || !unicode.IsPrint(r):
			return false
		case r == '&' || r == '\\' || likeAnAngle(r):
			escapes++
		}
	}
	return escapes <= refEscapesMax
}

// likeAnAngle says whether a rune may be shown as a reference, because it could
// be taken for an angle bracket. Which ones are is for who shows them; here any
// sign counts that is not ASCII, and the letters that have the shape.
func likeAnAngle(r rune) bool {
	return r >= utf8.RuneSelf && (!unicode.In(r, unicode.L, unicode.M, unicode.N) || unicode.Is(angularLetters, r))
}

var angularLetters = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1433, 0x1439, 1}, {0x1440, 0x1447, 1}, {0x150c, 0x150c, 1}, {0x16b2, 0x16b2, 1}, {0x2cb4, 0x2cb5, 1}},
	R32: []unicode.Range32{{0x16f3f, 0x16f3f, 1}, {0x21fe8, 0x21fe8, 1}},
}
