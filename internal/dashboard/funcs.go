package dashboard

import (
	"fmt"
	"net/url"
	"strconv"
)

// What the templates are given besides: small things that Go's own do not do.

// arg is a value as a part of an address.
func arg(s any) string { return url.PathEscape(textOf(s)) }

// textOf is the text of an id, a name or a kind, each of which is a type of its own.
func textOf(s any) string {
	switch s := s.(type) {
	case string:
		return s
	case *string:
		if s == nil {
			return ""
		}
		return *s
	case interface{ String() string }:
		return s.String()
	}
	return fmt.Sprint(s)
}

func shortText(s any) string { return short(textOf(s)) }

func numberOf(n any) string {
	switch n := n.(type) {
	case int:
		return number(n)
	case int64:
		return number(n)
	}
	if i, err := strconv.ParseInt(fmt.Sprint(n), 10, 64); err == nil {
		return number(i)
	}
	return fmt.Sprint(n)
}
