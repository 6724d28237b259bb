package esdb

import (
	"path/filepath"
	"strings"
	"testing"

	"decklog/internal/failure"
)

func TestAnAddressIsAConnectionStringWithTwoSettingsMore(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	a, err := Parse("esdb+discover://ops:secret@cluster.example:2113?tls=true&prefix=team.&views=/v/views.db")
	must(t, err)
	if want := (Address{"esdb+discover://ops:secret@cluster.example:2113?tls=true", "team.", "/v/views.db"}); a != want {
		t.Errorf("read as %+v", a)
	}
	if shown := a.Shown(); strings.Contains(shown, "secret") || !strings.Contains(shown, "ops@cluster.example") {
		t.Errorf("shown as %s", shown)
	}
	if _, err := Parse("esdb://one:1,two:2,three:3?tls=false"); err != nil {
		t.Errorf("seeds: %v", err)
	}
}

func TestEachLedgerHasViewsOfItsOwnWhoeverConnects(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	views := func(address string) string {
		t.Helper()
		a, err := Parse(address)
		must(t, err)
		return a.Views
	}
	one := views("esdb://one:1")
	if views("esdb://me:secret@one:1?tls=true") != one {
		t.Error("another user has other views")
	}
	if views("esdb://two:1") == one || views("esdb://one:1?prefix=x.") == one {
		t.Error("another ledger has the same views")
	}
	if !filepath.IsAbs(one) {
		t.Errorf("the views are %s", one)
	}
}

func TestABadAddressIsRefusedWithWhatToDo(t *testing.T) {
	for _, address := range []string{
		"esdb:", "esdb://", "esdb:one", "esdb://one:x", "esdb://one:1?prefix=", "esdb://one:1?prefix=$dl", "esdb://one:1?prefix=" + strings.Repeat("p", 65),
		"esdb://one:1?tsl=false", "esdb://one:1?tls=false&tls=true", "esdb://one:1?defaultDeadline=soon", "esdb://one:1?defaultDeadline=0",
		"esdb://one:1?prefix=dl.x.", "esdb://one:1?prefix=.", "esdb://one:1?views=", "esdb://one:1?views=/", "esdb://:1", "esdb://one:0", "esdb://one:99999", "esdb://one:1,", "esdb://one:1#x",
		"esdb://one:1?tls=perhaps", "esdb://:secret@one:1", "esdb://me:sec%zzret@one:1", "sqlite:x",
	} {
		_, err := Parse(address)
		if err == nil {
			t.Errorf("%s was taken", address)
			continue
		}
		f := failure.Of(err)
		if f.Code != "bad_ledger" || !strings.Contains(f.Fix, "esdb://") || strings.Contains(f.Message, "ret@") {
			t.Errorf("%s: %+v", address, f)
		}
	}
}

// Where one prefix were the beginning of another, a ledger would have the other's events.
func TestNoPrefixIsTheBeginningOfAnother(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	var all []string
	for _, given := range []string{"", "?prefix=d", "?prefix=dl", "?prefix=dl.", "?prefix=dl2", "?prefix=dl-2", "?prefix=dl_2.", "?prefix=team", "?prefix=team2"} {
		a, err := Parse("esdb://one:1" + given)
		must(t, err)
		for _, other := range all {
			if a.Prefix != other && (strings.HasPrefix(a.Prefix, other) || strings.HasPrefix(other, a.Prefix)) {
				t.Errorf("%s and %s", a.Prefix, other)
			}
		}
		all = append(all, a.Prefix)
	}
}
