package commands

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"decklog/events"
)

// Mask replaces what looks like a secret by `[masked:KIND]` and counts what it
// replaced, sorted by kind. Where only part of a text is secret only that part
// goes: the password of an address, the value of an authorization header or of
// an assignment.
//
// It knows secrets by their shape: those that a service marked (a prefix, a
// frame) at once, and those that only a name marks (`password = ...`) by the
// value's length and disorder, so that prose, code, hashes, UUIDs and
// placeholders stay. It is a net for accidents, not a proof: a secret without a
// shape passes.
//
// Masking twice is masking once. A body without a secret is returned as it is.
// The cost of an ordinary body is a search for some fixed words; no pattern is
// compiled before its word was seen. A body made to be slow takes time that grows
// with the square of its length, so its caller bounds it first.
func Mask(body []byte) ([]byte, []events.Masked) {
	var counts map[string]int
	// What was masked may uncover what a neighbour hid, so look until nothing is
	// found. No pass touches an earlier mark, so each leaves less to look at.
	for {
		secrets := findSecrets(body)
		if len(secrets) == 0 {
			break
		}
		if counts == nil {
			counts = map[string]int{}
		}
		var masked []byte
		at := 0
		for _, s := range secrets {
			counts[s.kind]++
			masked = append(masked, body[at:s.from]...)
			masked = append(masked, maskOpens+s.kind+"]"...)
			at = s.to
		}
		body = append(masked, body[at:]...)
	}
	var total []events.Masked
	for kind, n := range counts {
		total = append(total, events.Masked{Kind: kind, Count: n})
	}
	slices.SortFunc(total, func(a, b events.Masked) int { return cmp.Compare(a.Kind, b.Kind) })
	return body, total
}

// maskOpens begins every mark.
const maskOpens = "[masked:"

// secretAt is a secret in its place: body[from:to].
type secretAt struct {
	kind     string
	rank     int // of the shape that found it; the lower knows it better
	from, to int
}

// findSecrets finds all that one look can see, in order and apart. Where several
// shapes overlap, all that they cover is one secret, of the kind that knows it best.
func findSecrets(body []byte) []secretAt {
	shapes, names := secretWords().in(body)
	if shapes == 0 && len(names) == 0 {
		return nil
	}
	var found []secretAt
	for rank, shape := range secretShapes() {
		if shapes&(1<<rank) != 0 {
			found = shape.find(body, rank, found)
		}
	}
	for _, n := range names {
		if a, ok := readAssignment(body, n.from, n.to); ok && a.isSecret(n.kind) {
			// Least sure, so behind all shapes.
			found = append(found, secretAt{n.kind, math.MaxInt, a.from, a.from + len(a.value)})
		}
	}

	slices.SortFunc(found, func(a, b secretAt) int { return cmp.Compare(a.from, b.from) })
	apart := found[:0]
	for _, s := range found {
		last := len(apart) - 1
		if last < 0 || s.from >= apart[last].to {
			apart = append(apart, s)
			continue
		}
		apart[last].to = max(apart[last].to, s.to)
		if s.rank < apart[last].rank {
			apart[last].kind, apart[last].rank = s.kind, s.rank
		}
	}
	return apart
}

// wordIndex finds the words of all shapes, and the names that secrets are
// assigned to, in one look at a body: by the first three bytes of each, which is
// all that an ordinary body is asked for. Searching for each word by itself
// costs a hundred times as much.
type wordIndex struct {
	heads [1 << 12]uint8 // by hash, the first word of its chain, counted from 1
	words []indexedWord
}

type indexedWord struct {
	text  string // in lower case, at least three bytes
	shape int    // in secretShapes; below 0: a name
	kind  string // of a name
	next  uint8
}

var secretWords = sync.OnceValue(func() *wordIndex {
	index := new(wordIndex)
	add := func(text string, shape int, kind string) {
		head := &index.heads[wordHash(uint32(text[0])<<16|uint32(text[1])<<8|uint32(text[2]))]
		index.words = append(index.words, indexedWord{text, shape, kind, *head})
		*head = uint8(len(index.words))
	}
	for i, shape := range secretShapes() {
		for _, w := range shape.words {
			add(w, i, "")
		}
	}
	for _, n := range secretNames {
		add(n.ends, -1, n.kind)
	}
	return index
})

func wordHash(three uint32) uint32 { return three * 0x9E3779B1 >> (32 - 12) }

// nameAt is a name that a secret may be assigned to, in its place.
type nameAt struct {
	kind     string
	from, to int
}

// in says which shapes have a word in the body, a bit for each, and where the
// names are.
func (x *wordIndex) in(body []byte) (shapes uint64, names []nameAt) {
	var three uint32
	for i, c := range body {
		three = (three<<8 | uint32(lowerByte(c))) & 0xFFFFFF
		for n := x.heads[wordHash(three)]; n != 0; n = x.words[n-1].next {
			w := &x.words[n-1]
			if from := i - 2; from >= 0 && hasWord(body[from:], w.text) {
				if w.shape >= 0 {
					shapes |= 1 << w.shape
				} else {
					names = append(names, nameAt{w.kind, from, from + len(w.text)})
				}
			}
		}
	}
	return shapes, names
}

// hasWord says whether text begins with the word, in any case of A to Z.
func hasWord(text []byte, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lowerByte(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if c-'A' < 26 {
		c |= 0x20
	}
	return c
}

// secretShape is how one kind of secret looks.
type secretShape struct {
	kind string
	// words are in lower case and at least three bytes long; unless the body has
	// one of them, in any case, the pattern is neither compiled nor tried.
	words []string
	// pattern finds the secret, or the text around it; then its group is the secret.
	pattern func() *regexp.Regexp
	// inside says that the pattern may begin in the middle of a word.
	inside bool
	// accept has the last word on what the pattern found; nil: anything but filler.
	accept func(secret string) bool
	// rest gives how many bytes behind what the pattern found belong to it; below
	// 0: it is none. Nil: none do.
	rest func(behind []byte) int
}

// secretShapes lists the shapes, at most 64, the surest first.
var secretShapes = sync.OnceValue(func() []secretShape {
	pattern := func(p string) func() *regexp.Regexp {
		return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(p) })
	}
	words := func(w ...string) []string { return w }
	return []secretShape{
		{kind: "private-key", words: words("private key"), pattern: pattern(`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`), inside: true, rest: restOfPrivateKey},
		{kind: "anthropic-key", words: words("sk-ant-"), pattern: pattern(`sk-ant-[\w-]{16,}`)},
		{kind: "openrouter-key", words: words("sk-or-"), pattern: pattern(`sk-or-(?:v\d-)?[\w-]{20,}`)},
		{kind: "openai-key", words: words("sk-"), pattern: pattern(`sk-(?:(?:proj|svcacct|admin|service|None)-[\w-]{20,}|[A-Za-z0-9]{20,}\b)`)},
		{kind: "github-token", words: words("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), pattern: pattern(`(?:gh[pousr]_[A-Za-z0-9]{20,}(?:_\w+)?(?:\.[\w-]{10,})*|github_pat_\w{20,})`)},
		{kind: "gitlab-token", words: words("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-", "glimt-", "glffct-"), pattern: pattern(`gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|ffct)-[\w-]{20,}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9})?`)},
		{kind: "slack-token", words: words("xox", "xapp-"), pattern: pattern(`(?:xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,})`)},
		{kind: "slack-webhook", words: words("hooks.slack"), pattern: pattern(`https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{16,}`), inside: true},
		{kind: "stripe-key", words: words("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), pattern: pattern(`(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})`)},
		{kind: "google-api-key", words: words("aiza"), pattern: pattern(`AIza[\w-]{35}`)},
		{kind: "google-oauth", words: words("ya29.", "gocspx-"), pattern: pattern(`(?:ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,})`)},
		{kind: "decklog-token", words: words("dlk_"), pattern: pattern(`dlk_[a-z0-9]{4,16}_[a-z2-7]{40,}`)},
		{kind: "npm-token", words: words("npm_"), pattern: pattern(`npm_[A-Za-z0-9]{30,}`)},
		{kind: "npm-token", words: words("_auth"), pattern: pattern(`(?m)(?:^|:)_auth(?:Token)?\s*=\s*["']?([\w+/=.-]{16,})`), inside: true},
		{kind: "pypi-token", words: words("pypi-"), pattern: pattern(`pypi-AgE[\w-]{16,}`)},
		{kind: "sendgrid-key", words: words("sg."), pattern: pattern(`SG\.[\w-]{16,}\.[\w-]{16,}`)},
		{kind: "twilio-key", words: words("sk0", "sk1", "sk2", "sk3", "sk4", "sk5", "sk6", "sk7", "sk8", "sk9", "ska", "skb", "skc", "skd", "ske", "skf"), pattern: pattern(`SK[0-9a-f]{32}\b`)},
		{kind: "telegram-token", words: words(":aa"), pattern: pattern(`(?:bot)?([0-9]{6,12}:AA[\w-]{33})(?:[^\w-]|$)`)},
		{kind: "hugging-face-token", words: words("hf_", "api_org_"), pattern: pattern(`(?:hf|api_org)_[A-Za-z0-9]{30,}`)},
		{kind: "digitalocean-token", words: words("dop_v1_", "doo_v1_", "dor_v1_"), pattern: pattern(`do[opr]_v1_[0-9a-f]{32,}`)},
		{kind: "azure-storage-key", words: words("accountkey", "sharedaccesskey"), pattern: pattern(`(?i)(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}={0,2})`), inside: true},
		{kind: "aws-access-key", words: words("akia", "asia", "abia", "acca"), pattern: pattern(`(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`)},
		// As the console and the tools name it, and as the second column after its access key.
		{kind: "aws-secret", words: words("secret"), pattern: pattern(`(?i)(?:secret[ _-]?access[ _-]?key|aws[ _-]?secret(?:[ _-]?key)?)\\?["'\]]*[^\n=:]{0,10}(?::=|=>|[=:])\s*\\?["'\x60]?([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)`), inside: true},
		{kind: "aws-secret", words: words("akia", "asia"), pattern: pattern(`(?:AKIA|ASIA)[A-Z0-9]{16}["'\s,:;|]{1,5}([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)`)},
		{kind: "jwt", words: words("eyj"), pattern: pattern(`eyJ[\w-]{8,}\.[\w-]*\.[\w-]{4,}(?:\.[\w-]{4,}){0,2}`)},
		{kind: "url-credentials", words: words("://"), pattern: pattern(`://[^\s/:@"'<>\[\x60]*:([^\s/?#"'<>()\x60]+)@[\w\[]`), inside: true, accept: isURLPassword},
		{kind: "basic-auth", words: words("basic"), pattern: pattern(`(?i)basic\s+([A-Za-z0-9+/_-]{8,}={0,2})`), accept: isBasicAuth},
		{kind: "bearer-token", words: words("authorization"), pattern: pattern(`(?i)authorization\\?["'\]]{0,3}\s{0,3}[:=,]\s{0,3}\\?["'\x60]?(?:bearer|token|apikey)\s+([\w.~+/=-]{8,})`), inside: true, accept: isHeaderToken},
		{kind: "bearer-token", words: words("bearer"), pattern: pattern(`(?i)bearer\s+([\w.~+/=-]{16,})`), accept: isBearerToken},
	}
})

// find adds what the shape finds in the body.
func (s secretShape) find(body []byte, rank int, found []secretAt) []secretAt {
	p := s.pattern()
	accept := s.accept
	if accept == nil {
		accept = isNoFiller
	}
	for at := 0; at < len(body); {
		loc := p.FindSubmatchIndex(body[at:])
		if loc == nil {
			break
		}
		begins := at + loc[0]
		from, to := begins, at+loc[1]
		if len(loc) > 2 {
			from, to = at+loc[2], at+loc[3]
		}
		secret, rest := string(body[from:to]), 0
		if s.rest != nil {
			rest = s.rest(body[to:])
		}
		if !s.inside && inWord(body, begins) || strings.Contains(secret, maskOpens) || !accept(secret) || rest < 0 {
			at = begins + 1 // what was passed over may hide another
			continue
		}
		to += rest
		found = append(found, secretAt{s.kind, rank, from, to})
		at = to
	}
	return found
}

// restOfPrivateKey takes a PEM or PGP block to its last line. A block that was
// cut off goes to the end, if what follows its first line looks like a key: the
// first line alone is only talked about.
func restOfPrivateKey(behind []byte) int {
	if closes := lastOfPrivateKey().FindIndex(behind); closes != nil {
		return closes[1]
	}
	if cutPrivateKey().Match(behind) {
		return len(behind)
	}
	return -1
}

var lastOfPrivateKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)
})

// cutPrivateKey matches the line after the first: a header or base64, behind
// whatever a quotation or a diff puts before a line.
var cutPrivateKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:(?:\n|\\r|\\n)[\s>|+-]*)+(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset): |[A-Za-z0-9+/=]{8,}\s*(?:\n|\\|"|\.\.|$))`)
})

// inWord says whether a word goes on at this place, rather than begins: before it
// stands a letter, digit or underscore that is not the end of an escape of text
// (\n) or of an address (%3D).
func inWord(body []byte, at int) bool {
	if at == 0 || !isWordByte(body[at-1]) {
		return false
	}
	escaped := at >= 2 && body[at-2] == '\\' && bytes.IndexByte([]byte("nrt"), body[at-1]) >= 0
	return !escaped && (at < 3 || body[at-3] != '%')
}

func isWordByte(c byte) bool {
	return c == '_' || c-'0' < 10 || c|0x20-'a' < 26
}

// isNoFiller says whether a marked secret is more than its mark and x's.
func isNoFiller(secret string) bool {
	if strings.Contains(secret, "...") {
		return false
	}
	// The mark may be anything, so look at what ends the secret.
	return len(strings.TrimRight(secret, "xX*.")) > len(secret)-8
}

// isURLPassword tells the password of an address from a placeholder and a port.
func isURLPassword(secret string) bool {
	return !isPlaceholder(secret) && (strings.Trim(secret, "0123456789") != "" || len(secret) > 5)
}

// isBasicAuth says whether this is the base64 of a name and a password; the word
// "basic" has other neighbours.
func isBasicAuth(secret string) bool {
	secret = strings.TrimRight(secret, "=")
	pair, err := base64.RawStdEncoding.DecodeString(secret)
	if err != nil {
		pair, err = base64.RawURLEncoding.DecodeString(secret)
	}
	return err == nil && utf8.Valid(pair) && bytes.IndexByte(pair, ':') >= 0 && bytes.IndexFunc(pair, unicode.IsControl) < 0
}

// isHeaderToken judges what stands where only a token can.
func isHeaderToken(secret string) bool {
	return !isPlaceholder(secret) && (count(secret, isDigit) > 0 || len(secret) >= 24)
}

// isBearerToken judges what follows the word "bearer" anywhere.
func isBearerToken(secret string) bool {
	return isHeaderToken(secret) && count(secret, isDigit) > 0 && entropy(secret) >= 3
}

// secretNames are the ends of names that a secret is assigned to, in lower case,
// with the kind of secret.
var secretNames = [...]struct{ ends, kind string }{
	{"password", "password"}, {"passwd", "password"}, {"passphrase", "password"}, {"passcode", "password"}, {"pwd", "password"},
	{"secret", "secret"}, {"credential", "secret"}, {"credentials", "secret"},
	{"token", "token"},
	{"api_key", "api-key"}, {"api-key", "api-key"}, {"api key", "api-key"}, {"apikey", "api-key"},
	{"access_key", "api-key"}, {"access-key", "api-key"}, {"accesskey", "api-key"},
	{"secret_key", "secret"}, {"secret-key", "secret"}, {"secret key", "secret"}, {"secretkey", "secret"},
	{"private_key", "secret"}, {"private-key", "secret"}, {"privatekey", "secret"},
	{"auth_key", "secret"}, {"authkey", "secret"}, {"signing_key", "secret"}, {"signingkey", "secret"},
	{"encryption_key", "secret"}, {"encryptionkey", "secret"},
}

// assignment is the value that something named like a secret is given.
type assignment struct {
	value string
	from  int  // its place in the body
	sure  bool // it stands where a literal stands: in quotes, in NAME=value, after an option
	call  bool // a bracket follows it: it is what a program calls or indexes
}

// assigns matches what stands between the end of a name and its value: the
// rest of the name, a quote, the sign, and an opening quote.
var assigns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:[_-]?(?:base|value|prod|production|staging|live|test|dev|[0-9]{1,2}))?\\?["'\x60]?\]?([ \t]*)(:=|={1,3}>?|:|[ \t])([ \t]*)(\\?["'\x60])?`)
})

// readAssignment reads the assignment to the name whose end is body[begins:ends].
func readAssignment(body []byte, begins, ends int) (a assignment, ok bool) {
	const windowMax = 64 // bytes; what stands between a name and its value is short
	loc := assigns().FindSubmatchIndex(body[ends:min(len(body), ends+windowMax)])
	if loc == nil {
		return a, false
	}
	part := func(n int) string {
		if loc[2*n] < 0 {
			return ""
		}
		return string(body[ends+loc[2*n] : ends+loc[2*n+1]])
	}
	blank, sign, quote := part(1)+part(3), part(2), part(4)

	name := begins
	for name > 0 && (isWordByte(body[name-1]) || body[name-1] == '-') {
		name--
	}
	option := bytes.HasPrefix(body[name:], []byte("--"))
	if strings.TrimSpace(sign) == "" && !option {
		return a, false
	}
	if bytes.HasSuffix(body[:name], []byte("://")) || bytes.HasSuffix(body[:name], []byte(maskOpens)) {
		return a, false // an address, whose password has a shape of its own; or a mark
	}
	// A place in a listing, not a key to anything.
	owner := strings.ToLower(strings.TrimRight(string(body[name:begins]), "_-"))
	for _, cursor := range []string{"page", "next", "sync", "continuation"} {
		if strings.HasSuffix(owner, cursor) {
			return a, false
		}
	}

	a.from = ends + loc[1]
	rest := body[a.from:]
	if line := bytes.IndexByte(rest, '\n'); line >= 0 {
		rest = rest[:line]
	}
	end := len(rest)
	switch environment := sign == "=" && blank == "" && bytes.Equal(bytes.ToUpper(body[name:ends]), body[name:ends]); {
	case quote != "":
		a.sure = true
		if i := bytes.Index(rest, []byte(quote)); i >= 0 {
			end = i
		}
	case environment:
		a.sure = true
		if i := bytes.IndexAny(rest, " \t\"'`"); i >= 0 {
			end = i
		}
	default:
		a.sure = option || sign == "=" && blank == ""
		if i := bytes.IndexAny(rest, " \t\"'`,;&|<>()[]{}\\"); i >= 0 {
			end = i
			a.call = rest[i] == '(' || rest[i] == '['
		}
	}
	a.value = string(rest[:end])
	return a, true
}

// isSecret tells a secret from prose, code and placeholders.
func (a assignment) isSecret(kind string) bool {
	const bytesMin = 8
	v := a.value
	digits, letters := count(v, isDigit), count(v, isLetter)
	mixed := digits > 0 && letters > 0
	switch {
	case len(v) < bytesMin || a.call || strings.ContainsAny(v, " \t") || strings.ContainsAny(v[:1], `:=+\`):
		return false
	case strings.Contains(v, maskOpens) || isPlaceholder(v) || isLocation(v) || isConstantName(v) || events.IsUUID(strings.ToLower(v)):
		return false
	case letters == 0 || entropy(v) < 2:
		return false
	case kind != "password" && isName(v):
		return false
	case !mixed && kind == "password":
		return a.sure && letters > 0 && strings.ContainsAny(v, "!@#$%^&*+=?~|")
	case !mixed: // a long random word, which no camel has as many letters for
		return a.sure && len(v) >= 24 && entropy(v) >= 4.2
	case a.sure:
		return true
	}
	// What stands bare after a colon or in a program may be a type, a variable,
	// a word with a number in it. A secret changes between letters and digits
	// more often, or is a password as people make them.
	if turns(v) >= 3 {
		return len(v) >= 12 || kind == "password"
	}
	lower := strings.ToLower(v)
	return kind == "password" && lower == v && !strings.ContainsFunc(v, unicode.IsSpace) && !strings.ContainsAny(v, "_.") &&
		!slices.ContainsFunc([]string{"pass", "secret", "token", "key", "pwd"}, func(w string) bool { return strings.Contains(lower, w) })
}

// isPlaceholder says whether a value only stands for one: a variable, a blank to
// fill in, x's, or a word that everybody uses.
func isPlaceholder(v string) bool {
	if strings.Trim(v, "xX*.-_?#0") == "" || strings.ContainsAny(v, "<>") {
		return true
	}
	switch v[0] {
	case '$', '%', '{', '@':
		return true
	}
	lower := strings.ToLower(v)
	for _, inner := range []string{"${", "$(", "{{", "%(", "xxxx", "****", "..."} {
		if strings.Contains(lower, inner) {
			return true
		}
	}
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.TrimRight(lower, "0123456789!"))
	switch plain {
	case "changeme", "changeit", "password", "passwd", "pass", "example", "placeholder", "redacted", "removed", "hidden", "replaceme", "insertyourkeyhere", "todo":
		return true
	}
	return strings.HasPrefix(plain, "your") || strings.HasPrefix(plain, "changeme")
}

// isLocation says whether a value is a path, an address or the name of a file's place.
func isLocation(v string) bool {
	if strings.Contains(v, "://") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~") ||
		len(v) > 2 && v[1] == ':' && (v[2] == '\\' || v[2] == '/') {
		return true
	}
	// Base64 may begin with a slash too, but then looks less tidy.
	return v[0] == '/' && !strings.ContainsAny(v, "+=") && turns(v) < 4
}

// isConstantName says whether a value is a name such as DB_PASSWORD_1.
func isConstantName(v string) bool {
	return strings.Contains(v, "_") && !strings.ContainsFunc(v, func(r rune) bool {
		return r != '_' && !isDigit(r) && (r < 'A' || r > 'Z')
	})
}

// isName says whether a value is made of words and short numbers: my-app-secret-1,
// a date, a version, a time.
func isName(v string) bool {
	for part := range strings.FieldsFuncSeq(v, isPunctuation) {
		digits := count(part, isDigit)
		if digits > 0 && digits < len(part) || digits > 4 {
			return false
		}
	}
	return strings.ContainsFunc(v, isPunctuation)
}

// entropy is the disorder of a text's bytes, in bits for each.
func entropy(s string) float64 {
	var seen [256]int
	for i := range len(s) {
		seen[s[i]]++
	}
	var bits float64
	for _, n := range seen {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// turns counts how often letters and digits take turns.
func turns(s string) (n int) {
	var last rune
	for _, r := range s {
		if !isDigit(r) && !isLetter(r) {
			continue
		}
		if last != 0 && isDigit(r) != isDigit(last) {
			n++
		}
		last = r
	}
	return n
}

func count(s string, is func(rune) bool) (n int) {
	for _, r := range s {
		if is(r) {
			n++
		}
	}
	return n
}

func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
func isLetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' || r >= utf8.RuneSelf }

func isPunctuation(r rune) bool { return r < utf8.RuneSelf && !isDigit(r) && !isLetter(r) }
