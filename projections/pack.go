package projections

import (
	"encoding/binary"
	"errors"

	"decklog/events"
)

// packer makes the bytes of a row, or a row of its bytes. What a kind of row
// consists of is said once, in its pack method: the same fields in the same order
// are what is written and what is read. Whoever changes one raises FoldVersion,
// and the rows are made anew.
//
// Rows are not JSON, because the rows of messages are most of a ledger's file and
// of the work of a fold: packed they are a quarter as long, and so a commit writes
// and a rebuild sorts a quarter as much.
type packer struct {
	bytes   []byte // written so far, or left to read
	reads   bool
	damaged bool         // what is left cannot be read
	texts   []string     // of this row, so that one which comes again is one byte
	time    events.Time  // the moment before, of which the next one is not far
	shared  *sharedTexts // by other rows; nil where each row has to stand alone
}

// row is a kind of row.
type row[T any] interface {
	*T
	pack(*packer)
}

func pack[T any, R row[T]](p *packer, id string, r R) []byte {
	*p = packer{bytes: p.bytes[:0], texts: append(p.texts[:0], id), shared: p.shared}
	r.pack(p)
	return p.bytes
}

var errNotWhole = errors.New("it is not whole")

func unpack[T any, R row[T]](id string, data []byte, shared *sharedTexts) (R, error) {
	r := R(new(T))
	p := packer{bytes: data, reads: true, texts: append(make([]string, 0, 16), id), shared: shared}
	r.pack(&p)
	if p.damaged || len(p.bytes) > 0 {
		return nil, errNotWhole
	}
	return r, nil
}

// fail makes nothing of what is left.
func (p *packer) fail() { p.damaged, p.bytes = true, nil }

func (p *packer) byte(b *byte) {
	switch {
	case !p.reads:
		p.bytes = append(p.bytes, *b)
	case len(p.bytes) == 0:
		*b = 0
		p.fail()
	default:
		*b, p.bytes = p.bytes[0], p.bytes[1:]
	}
}

// flags are up to eight bits of a byte.
func (p *packer) flags(all ...*bool) {
	var bits byte
	for i, flag := range all {
		if *flag {
			bits |= 1 << i
		}
	}
	if p.byte(&bits); !p.reads {
		return // what is packed may be part of a recorded event, which others read
	}
	if bits>>len(all) != 0 {
		p.fail()
	}
	for i, flag := range all {
		*flag = bits>>i&1 == 1
	}
}

// size is a length, which what is left must have: each thing counted takes a byte
// at least.
func (p *packer) size(n int) int {
	if !p.reads {
		p.bytes = binary.AppendUvarint(p.bytes, uint64(n))
		return n
	}
	size, length := binary.Uvarint(p.bytes)
	if length <= 0 || size > uint64(len(p.bytes)-length) {
		p.fail()
		return 0
	}
	p.bytes = p.bytes[length:]
	return int(size)
}

func number[N ~int | ~int64](p *packer, n *N) {
	if !p.reads {
		p.bytes = binary.AppendVarint(p.bytes, int64(*n))
		return
	}
	read, length := binary.Varint(p.bytes)
	if length <= 0 {
		p.fail()
		return
	}
	*n, p.bytes = N(read), p.bytes[length:]
}

// wide is a number that may need all its 64 bits.
func wide(p *packer, n *uint64) {
	same := int64(*n)
	if number(p, &same); p.reads {
		*n = uint64(same)
	}
}

func (p *packer) moment(t *events.Time) {
	since := *t - p.time
	if number(p, &since); p.reads {
		*t = p.time + since
	}
	p.time = *t
}

// maybe is a moment that may never come.
func (p *packer) maybe(t **events.Time) {
	comes := *t != nil
	if p.flags(&comes); !comes {
		return
	}
	if p.reads {
		*t = new(events.Time)
	}
	p.moment(*t)
}

// The first byte of a text says how it goes on.
const (
	emptyText  = 0
	uuidText   = 1               // 16 bytes follow
	otherText  = 2               // its length and its bytes follow
	knownText  = 3               // and up: it is one of words
	sharedText = 127             // its number among the shared ones follows
	againText  = 128             // and up: it is one of the row's own
	textsAgain = 256 - againText // of the row's first so many texts
)

func text[T ~string](p *packer, t *T) {
	if p.reads {
		*t = T(p.readText())
	} else {
		p.writeText(string(*t))
	}
}

// often is a text that many rows hold.
func often[T ~string](p *packer, t *T) {
	if p.shared == nil || p.reads || *t == "" {
		text(p, t)
		return
	}
	if n, known := p.shared.number(string(*t)); known {
		p.bytes = binary.AppendUvarint(append(p.bytes, sharedText), uint64(n))
	} else {
		text(p, t)
	}
}

func (p *packer) writeText(t string) {
	if t == "" {
		p.bytes = append(p.bytes, emptyText)
		return
	}
	if len(t) < len(wordsOfLength) {
		for _, n := range wordsOfLength[len(t)] {
			if words[n] == t {
				p.bytes = append(p.bytes, knownText+n)
				return
			}
		}
	}
	for i, seen := range p.texts {
		if seen == t {
			p.bytes = append(p.bytes, againText+byte(i))
			return
		}
	}
	if len(p.texts) < textsAgain {
		p.texts = append(p.texts, t)
	}
	if u, is := events.ParseUUID(t); is {
		p.bytes = append(append(p.bytes, uuidText), u[:]...)
		return
	}
	p.bytes = append(p.bytes, otherText)
	p.bytes = append(binary.AppendUvarint(p.bytes, uint64(len(t))), t...)
}

func (p *packer) readText() (t string) {
	var how byte
	p.byte(&how)
	switch {
	case how == emptyText:
		return ""
	case how >= againText:
		if n := int(how - againText); n < len(p.texts) {
			return p.texts[n]
		}
		p.fail()
		return ""
	case how == sharedText:
		n, length := binary.Uvarint(p.bytes)
		if length <= 0 || p.shared == nil || n >= uint64(len(p.shared.texts)) {
			p.fail()
			return ""
		}
		p.bytes = p.bytes[length:]
		return p.shared.texts[n]
	case how >= knownText:
		if n := int(how - knownText); n < len(words) {
			return words[n]
		}
		p.fail()
		return ""
	case how == uuidText:
		if len(p.bytes) < 16 {
			p.fail()
			return ""
		}
		t, p.bytes = events.UUID([16]byte(p.bytes)), p.bytes[16:]
	default:
		n := p.size(0)
		t, p.bytes = string(p.bytes[:n]), p.bytes[n:]
	}
	if len(p.texts) < textsAgain {
		p.texts = append(p.texts, t)
	}
	return t
}

func list[T any](p *packer, all *[]T, element func(*packer, *T)) {
	n := p.size(len(*all))
	if p.reads && n > 0 {
		*all = make([]T, n)
	}
	for i := range *all {
		element(p, &(*all)[i])
	}
}

// some is a part that may be absent.
func some[T any](p *packer, part **T, whole func(*packer, *T)) {
	there := *part != nil
	if p.flags(&there); !there {
		return
	}
	if p.reads {
		*part = new(T)
	}
	whole(p, *part)
}

// words are the texts that rows hold most, apart from ids. Their numbers are in
// the rows.
var words = [...]string{
	string(events.KindSession), string(events.KindSeat), string(events.KindPerson), string(events.KindBot),
	string(events.KindMessage), string(events.KindAlert), string(events.KindCard), string(events.KindMirror),
	string(events.KindHandoffLine), string(events.KindReview),
	string(events.Request), string(events.Inform), string(events.Done), string(events.Working), string(events.Final),
	string(events.StateQueued), string(events.StateHeld), string(events.StateLeased), string(events.StateDelivered), string(events.StateRead),
	string(events.StateExpired), string(events.StateUndelivered), string(events.StateDeleted),
	string(events.ItemNotice), string(events.LostUnconfirmed), string(events.LostSessionEnded),
	string(events.FormFull), string(events.FormShort), string(OwedReply),
	"claude-code", "codex", "UserPromptSubmit", "PostToolUse", "Stop", "SessionStart", "gemini", "opencode",
}

// wordsOfLength are the numbers of the words by their length, so that to see
// whether a text is one takes no more than to compare it with a few.
var wordsOfLength = func() (numbers [17][]byte) {
	for n, w := range words {
		numbers[len(w)] = append(numbers[len(w)], byte(n))
	}
	return numbers
}()
