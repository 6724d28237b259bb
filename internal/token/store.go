package token

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"decklog/events"
)

// FileName is what the file of the tokens beside a ledger is called.
const FileName = "tokens.json"

// lockName is the file whose lock whoever changes one of the files holds.
const lockName = "tokens.lock"

// The bounds of the file. What is revoked or expired makes room when it is full.
const (
	TokensMax    = 1000
	fileBytesMax = 1 << 20
)

// Tokens are those beside one ledger. Several processes may use them at once,
// and several goroutines; what one of them changes holds for all others from
// their next question on.
type Tokens struct {
	dir string

	given   cache[[]kept]
	machine cache[string]
}

// Open gives the tokens in a ledger's folder; nothing is read or made before it
// is needed.
func Open(folder string) *Tokens { return &Tokens{dir: folder} }

// document is the file:
//
//	{"version":1,"tokens":[{"id":"k3v9x2ab","participant":"@ana","scope":"write",
//	  "label":"phone","created":"2026-11-30T09:00:00.000000Z","expires":null,
//	  "revoked":null,"sha256":"9f86d0…"}]}
//
// A field that this version does not know may be a bound that it would not keep,
// so a file with one lets nobody in.
type document struct {
	Version int    `json:"version"`
	Tokens  []kept `json:"tokens"`
}

const version = 1

// kept is a token as it lies in the file.
type kept struct {
	Token
	SHA256 string `json:"sha256"`

	hash [sha256.Size]byte
}

// New is a token to be made.
type New struct {
	Participant events.Participant
	Scope       Scope
	Label       string
	Expires     *events.Time // later than now; nil: never
}

// Create makes a token. Its text is given this once: what is kept is its hash.
// Once it returns, the token is durable and good.
func (t *Tokens) Create(n New, now events.Time) (made Token, secret string, err error) {
	made = Token{Participant: n.Participant, Scope: n.Scope, Label: n.Label, Created: now, Expires: n.Expires}
	if err := made.check(); err != nil {
		return Token{}, "", fmt.Errorf("create token: %w", err)
	}
	if n.Expires != nil && *n.Expires <= now {
		return Token{}, "", errors.New("create token: it would have expired already")
	}
	err = t.change(func(all []kept) ([]kept, error) {
		if len(all) >= TokensMax {
			all = slices.DeleteFunc(all, func(k kept) bool { return k.State(now) != "good" })
		}
		if len(all) >= TokensMax {
			return nil, fmt.Errorf("%w: %d are good", ErrFull, len(all))
		}
		for made.ID == "" || slices.ContainsFunc(all, func(k kept) bool { return k.ID == made.ID }) {
			made.ID = random(idBytes)
		}
		secret = text(made.ID)
		hash := hashOf(secret)
		return append(all, kept{Token: made, SHA256: hex.EncodeToString(hash[:])}), nil
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("create token: %w", err)
	}
	return made, secret, nil
}

// List gives the tokens that were given out, the oldest first, the revoked and
// expired ones too.
func (t *Tokens) List() ([]Token, error) {
	all, err := t.all()
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list := make([]Token, len(all))
	for i, k := range all {
		list[i] = k.Token
	}
	return list, nil
}

// Revoke takes a token back, by its id. One that was taken back before stays as
// it was; one that is not there is [ErrUnknown]. Once it returns, the token is
// refused everywhere, now and after a crash.
func (t *Tokens) Revoke(id string, now events.Time) (revoked Token, err error) {
	err = t.change(func(all []kept) ([]kept, error) {
		i := slices.IndexFunc(all, func(k kept) bool { return k.ID == id })
		if i < 0 {
			return nil, ErrUnknown
		}
		if all[i].Revoked == nil {
			all[i].Revoked = &now
		}
		revoked = all[i].Token
		return all, nil
	})
	if err != nil {
		return Token{}, fmt.Errorf("revoke token: %w", err)
	}
	return revoked, nil
}

// Check says which token a text is. The error is [ErrUnknown], [ErrRevoked] or
// [ErrExpired], the latter two told only to who has the whole secret; or
// [ErrDamaged]. It looks at the file's date, and reads it only when that changed.
func (t *Tokens) Check(text string, now events.Time) (Token, error) {
	id, given := IDIn(text), hashOf(text)
	if id == machineID {
		return t.checkMachine(given)
	}
	all, err := t.all()
	if err != nil {
		return Token{}, err
	}
	// Whether the id is one's makes no difference to what is done.
	var found kept
	for _, k := range all {
		if k.ID == id {
			found = k
		}
	}
	switch same := subtle.ConstantTimeCompare(found.hash[:], given[:]) == 1; {
	case !same || found.ID == "":
		return Token{}, ErrUnknown
	case found.State(now) == "revoked":
		return found.Token, ErrRevoked
	case found.State(now) == "expired":
		return found.Token, ErrExpired
	}
	return found.Token, nil
}

// all are the tokens as they lie in the file now. The list is shared: whoever
// changes it clones it first.
func (t *Tokens) all() ([]kept, error) {
	found, err := t.given.read(filepath.Join(t.dir, FileName), parse)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

func parse(b []byte) ([]kept, error) {
	var d document
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the document")
	}
	if d.Version != version {
		return nil, fmt.Errorf("it is of version %d, and this decklog reads %d", d.Version, version)
	}
	ids := map[string]bool{}
	for i := range d.Tokens {
		k := &d.Tokens[i]
		hash, err := hex.DecodeString(k.SHA256)
		if err != nil || len(hash) != sha256.Size || bytes.Equal(hash, make([]byte, sha256.Size)) {
			return nil, fmt.Errorf("token %d has no hash", i)
		}
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("token %d: %w", i, err)
		}
		if !written(k.ID, idBytes) || ids[k.ID] {
			return nil, fmt.Errorf("token %d has no id of its own", i)
		}
		ids[k.ID] = true
		k.hash = [sha256.Size]byte(hash)
	}
	return d.Tokens, nil
}

// change rewrites the file under its lock: it is there whole, the old one or the
// new one, and once change returns nil it is on the disk.
func (t *Tokens) change(how func([]kept) ([]kept, error)) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(t.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	all, err := t.all()
	if err != nil {
		return err
	}
	if all, err = how(slices.Clone(all)); err != nil {
		return err
	}
	b, err := json.MarshalIndent(document{Version: version, Tokens: all}, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(t.dir, FileName), append(b, '\n'))
}

// replace puts a file of its owner's alone in the place of another.
func replace(path string, b []byte) error {
	half := path + ".new"
	if err := os.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it would be one that a crash left
	}
	f, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(half, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(half))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// cache is what was read of a file, for as long as the file is the same.
type cache[T any] struct {
	mu      sync.Mutex
	info    fs.FileInfo // of what was read; nil: nothing was
	settled bool
	found   T
}

// settles is how old a file's date must be for a change to show in it: within
// the clock's step of a file system two changes may bear the same date.
const settles = 2 * time.Second

// read gives what parse makes of the file. It is not there: fs.ErrNotExist. It
// cannot be read, or is not its owner's alone: ErrDamaged.
func (c *cache[T]) read(path string, parse func([]byte) (T, error)) (none T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := os.Lstat(path)
	if err == nil && c.info != nil && c.settled && os.SameFile(now, c.info) && now.ModTime().Equal(c.info.ModTime()) &&
		now.Size() == c.info.Size() && now.Mode() == c.info.Mode() {
		return c.found, nil
	}
	c.info, c.found = nil, none
	if errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	damaged := func(err error) (T, error) { return none, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err) }
	if err != nil {
		return damaged(err)
	}
	if !now.Mode().IsRegular() || now.Mode().Perm()&0o077 != 0 {
		return damaged(fmt.Errorf("it is no file of its owner's alone (%s)", now.Mode()))
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	if err != nil {
		return damaged(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return damaged(err)
	}
	b, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(b) > fileBytesMax {
		err = fmt.Errorf("it has more than %d bytes", fileBytesMax)
	}
	if err != nil {
		return damaged(err)
	}
	found, err := parse(b)
	if err != nil {
		return damaged(err)
	}
	c.info, c.found, c.settled = info, found, time.Since(info.ModTime()) > settles
	return found, nil
}

// date is that of the file as it was read last.
func (c *cache[T]) date() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.info == nil {
		return time.Time{}
	}
	return c.info.ModTime()
}
