package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// awkward are texts that shells, escapes and normal forms like to change.
var awkward = map[string]string{
	"a path":                      `C:\temp\new \$HOME`,
	"backticks":                   "`whoami` and ``code``",
	"a substitution":              `$(rm -rf ~) ${HOME} $HOME $$ !!`,
	"an apostrophe":               `it's, don't, ''`,
	"quotes":                      `"a" 'b' “c” «d»`,
	"escapes":                     `\n \t \\ \0 \x1b \u0041 %s %d %% %n`,
	"a flag":                      `--json --help`,
	"a dash in front":             `-rf`,
	"markup":                      `<b>&amp;&lt;</b> &#60; <!-- ]]> -->`,
	"JSON":                        `{"body":"\u0000\ud83d"}`,
	"a family with joiners":       "👨\u200d👩\u200d👧\u200d👦 ❤\ufe0f 🏴\u200d☠\ufe0f 🇩🇪",
	"NFD":                         "cafe\u0301 A\u030a \u1112\u1161\u11ab\u1100\u1173\u11af",
	"NFC beside NFD":              "é e\u0301 ﬁ ½ Å Å",
	"a non-joiner":                "می\u200cخواهم",
	"blanks at both ends":         "  \t indented,\n\tand ends with blanks \t ",
	"lines and an end of line":    "one\n\n\nthree\n",
	"a byte order mark":           "\ufefftext",
	"zero width and soft hyphens": "a\u200bb\u00adc\u2060d",
	"beyond the basic plane":      "𝔘𝔫𝔦 \U0001F9EC \U0010FFFD",
}

// F34: what was written is what arrives, through every door of the command line.
func TestF34AwkwardTextArrivesByteForByteThroughEveryDoor(t *testing.T) {
	m := aboard(t)
	m.policy(unbounded)
	m.join("sender-01")
	doors := map[string]func(text string) (io.Reader, []string){
		"file": func(text string) (io.Reader, []string) {
			file := filepath.Join(m.dir, "body")
			m.ok(os.WriteFile(file, []byte(text), 0o600))
			return nil, []string{"--body-file", file}
		},
		"stdin":    func(text string) (io.Reader, []string) { return strings.NewReader(text), []string{"-"} },
		"argument": func(text string) (io.Reader, []string) { return nil, []string{"--", text} },
	}
	for door, through := range doors {
		to := m.join("by-" + door)
		for name, text := range awkward {
			stdin, body := through(text)
			r := m.run(stdin, append([]string{"send", "--json", "--as", "sender-01", "--to", to}, body...)...)
			if r.code != 0 {
				t.Errorf("%s through %s: %s", name, door, r)
				continue
			}
			sent := read[receipt](t, r.stdout).Receipt
			if got := m.message(sent.ID).Body; got != text {
				t.Errorf("%s through %s: sent %+q, arrived %+q", name, door, text, got)
			}
			if len(sent.Masked) > 0 {
				t.Errorf("%s through %s: masked %v", name, door, sent.Masked)
			}
		}
	}
	m.verified()
}

// F35: a body is admitted whole, or refused with its size as it was counted.
func TestF35ABodyIsAdmittedWholeOrRefusedWithItsSize(t *testing.T) {
	m := aboard(t)
	m.policy(unbounded)
	m.join("sender-01")
	m.join("taker-02")
	long := func(n int) string { return strings.Repeat("a", n) }
	for name, c := range map[string]struct {
		body, arrives, refused string // either it arrives, or it is refused with these words
	}{
		"3,999 bytes":                             {body: long(3999), arrives: long(3999)},
		"4,000 bytes":                             {body: long(4000), arrives: long(4000)},
		"4,001 bytes":                             {body: long(4001), refused: "4001 bytes; at most 4000"},
		"a rune that ends at the limit":           {body: long(3998) + "é", arrives: long(3998) + "é"},
		"a rune across the limit":                 {body: long(3999) + "é", refused: "4001 bytes; at most 4000"},
		"a joined emoji across the limit":         {body: long(3990) + "👨\u200d👩\u200d👧", refused: "4008 bytes; at most 4000"},
		"few characters, many bytes":              {body: strings.Repeat("€", 1334), refused: "4002 bytes; at most 4000"},
		"4,001 bytes that are cleaned to 4,000":   {body: "b" + long(1999) + "\x00" + long(2000), arrives: "b" + long(3999)},
		"8,000 bytes of line ends, 4,000 cleaned": {body: "a" + strings.Repeat("\r\n", 3999), arrives: "a" + strings.Repeat("\n", 3999)},
		"only blanks":                             {body: " \t\n \u00a0\u2003\r\n", refused: "blank"},
		"nothing":                                 {body: "", refused: "blank"},
		"only NUL":                                {body: "\x00\x00", refused: "blank"},
		"NUL among text":                          {body: "a\x00b", arrives: "ab"},
		"a byte that is no UTF-8":                 {body: "ab\xffcd", refused: "the first at byte 2"},
		"a rune that is cut":                      {body: "abc\xe2\x82", refused: "the first at byte 3"},
		"a surrogate":                             {body: "\xed\xa0\x80", refused: "the first at byte 0"},
		"UTF-16":                                  {body: "\xff\xfea\x00b\x00", refused: "the first at byte 0"},
		"60,000 characters":                       {body: long(60_000), refused: "60000 bytes; at most 4000"},
		"60,000 characters of three bytes":        {body: strings.Repeat("€", 60_000), refused: "180000 bytes; at most 4000"},
	} {
		t.Run(name, func(t *testing.T) {
			m := *m
			m.TB = t
			r := m.run(strings.NewReader(c.body), "send", "--json", "--as", "sender-01", "--to", "taker-02", "-")
			if c.refused == "" {
				if r.code != 0 {
					t.Fatal(r)
				}
				if got := m.message(read[receipt](t, r.stdout).Receipt.ID).Body; got != c.arrives {
					t.Errorf("%d bytes arrived of %d: %.80q", len(got), len(c.arrives), got)
				}
				return
			}
			if r.code != 3 {
				t.Fatal(r)
			}
			refusal := read[refused](t, r.stdout).Refusal
			if refusal.Code != "bad_request" || refusal.Status != 400 || !strings.Contains(refusal.Message, c.refused) {
				t.Errorf("refused with %+v, want %q", refusal, c.refused)
			}
		})
	}
	m.verified()
}

// endless is a body that has no end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, bytes.Repeat([]byte("a"), len(p))), nil
}

// What nobody could mean as a message is not read to its end.
func TestF35ABodyWithoutEndIsGivenUpWithAWord(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	m.join("taker-02")
	before := len(m.events())
	cmd := m.command("send", "--json", "--as", "sender-01", "--to", "taker-02", "-")
	body := &endless{}
	r, err := finish(cmd, body)
	// That the rest of it finds no reader is what is asked for.
	if err != nil && !strings.Contains(err.Error(), "broken pipe") {
		t.Fatal(err)
	}
	if r.code != 1 {
		t.Fatal(r)
	}
	failure := read[failed](t, r.stdout).Error
	if failure.Code != "body_too_large" || !strings.Contains(failure.Message, fmt.Sprint(16<<20)) || failure.Fix == "" {
		t.Errorf("it fails with %+v", failure)
	}
	if after := len(m.events()); after != before {
		t.Errorf("%d events were recorded", after-before)
	}
	t.Logf("%d bytes were written before it gave up", body.read)
}
