package rows_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"decklog/internal/rows"
)

func filled(t *testing.T, keys ...string) *rows.Rows {
	t.Helper()
	m := rows.New()
	for _, k := range keys {
		if err := m.Put(k, []byte("of "+k)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func keys(t testing.TB, m *rows.Rows, prefix, after string, backward bool) []string {
	t.Helper()
	var got []string
	if err := m.Scan(prefix, after, backward, func(key string, _ []byte) bool {
		got = append(got, key)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestACopyAndItsOriginGoTheirOwnWays(t *testing.T) {
	a := filled(t, "a", "b", "c")
	b := a.Copy()
	a.Put("a", nil)
	b.Put("b", []byte("other"))
	b.Put("d", []byte("new"))
	if got := keys(t, a, "", "", false); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("the origin has %v", got)
	}
	if got := keys(t, b, "", "", false); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the copy has %v", got)
	}
	if v, _ := a.Get("b"); string(v) != "of b" {
		t.Errorf("the origin's row reads %q", v)
	}
	if a.Len() != 2 || b.Len() != 4 {
		t.Errorf("lengths %d and %d", a.Len(), b.Len())
	}
}

func TestACopyTakesTheSameTimeForAnyNumberOfRows(t *testing.T) {
	few, many := rows.New(), rows.New()
	few.Put("k", []byte("v"))
	for i := range 20_000 {
		many.Put(fmt.Sprint("k", i), []byte("v"))
	}
	cost := func(m *rows.Rows) float64 {
		return testing.AllocsPerRun(100, func() { m.Copy().Put("k", []byte("w")) })
	}
	if a, b := cost(few), cost(many); b > a+10 {
		t.Errorf("a copy and a put cost %v allocations with 1 row, %v with 20,000", a, b)
	}
}

func TestAValueIsCopiedWhenItIsPut(t *testing.T) {
	m := rows.New()
	v := []byte("as put")
	m.Put("k", v)
	copy(v, "changed!")
	if got, _ := m.Get("k"); string(got) != "as put" {
		t.Errorf("the row reads %q", got)
	}
}

func TestAnEmptyValueIsARowAndANilOneIsNot(t *testing.T) {
	m := rows.New()
	m.Put("k", []byte{})
	if v, _ := m.Get("k"); v == nil {
		t.Error("an empty value reads as no row")
	}
	m.Put("k", nil)
	if v, _ := m.Get("k"); v != nil || m.Len() != 0 {
		t.Error("the row is still there")
	}
}

func TestAnEmptyKeyIsRefused(t *testing.T) {
	if err := rows.New().Put("", []byte("v")); !errors.Is(err, rows.ErrEmptyKey) {
		t.Errorf("put gave %v", err)
	}
}

func TestAScanMayClearWhatItVisits(t *testing.T) {
	for _, backward := range []bool{false, true} {
		m := rows.New()
		for i := range 500 {
			m.Put(fmt.Sprintf("k%03d", i), []byte("v"))
		}
		visited := 0
		m.Scan("k", "", backward, func(key string, _ []byte) bool {
			visited++
			m.Put(key, nil)
			return true
		})
		if visited != 500 || m.Len() != 0 {
			t.Errorf("backward %v: %d visited, %d left", backward, visited, m.Len())
		}
	}
}

func TestAScanGivesExactlyTheKeysOfItsRangeInOrder(t *testing.T) {
	key := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\u00ff")), 0, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		m := rows.New()
		all := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\u00ff")), 1, 3, -1), 0, 40).Draw(t, "keys")
		for _, k := range all {
			if err := m.Put(k, []byte(k)); err != nil {
				t.Fatal(err)
			}
		}
		prefix, after, backward := key.Draw(t, "prefix"), key.Draw(t, "after"), rapid.Bool().Draw(t, "backward")

		slices.Sort(all)
		var want []string
		for _, k := range slices.Compact(all) {
			inside := k > after
			if backward {
				inside = after == "" || k < after
			}
			if inside && strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		if backward {
			slices.Reverse(want)
		}
		var got []string
		m.Scan(prefix, after, backward, func(key string, value []byte) bool {
			if key != string(value) {
				t.Fatalf("row %q holds %q", key, value)
			}
			got = append(got, key)
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestTheRangeOfAPrefixOfHighestBytesHasNoEnd(t *testing.T) {
	m := filled(t, "a", "\xff\xff", "\xff\xffz")
	if got := keys(t, m, "\xff\xff", "", false); !slices.Equal(got, []string{"\xff\xff", "\xff\xffz"}) {
		t.Errorf("got %q", got)
	}
	if got := keys(t, m, "\xff", "", true); !slices.Equal(got, []string{"\xff\xffz", "\xff\xff"}) {
		t.Errorf("backward got %q", got)
	}
}
