package serve

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"decklog/internal/api"
	"decklog/internal/token"
)

// The document names the errors that a client must tell apart, under the statuses
// that they have.
func TestTheDocumentNamesTheErrorsOfTheDoor(t *testing.T) {
	want := map[int][]string{}
	add := func(status int, code string) {
		if api.Faults[status] != nil && !slices.Contains(want[status], code) {
			want[status] = append(want[status], code)
		}
	}
	for code, status := range statuses {
		add(status, code)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, f := range []*Fault{
		noToken(r), badToken(""), revokedToken(), expiredToken(), tokensDamaged(), tooManyFailures(1), tooManyRequests(1), machineOnly(), readOnlyToken(token.Token{}),
		badPath(""), pathTooLong(), badHost(), crossSite(), internalError(), notJSON(false), bodyTooLarge(1), slowBody(), cutBody(), tooManyLarge(),
		nowhere(http.NewServeMux(), httptest.NewRecorder(), r),
	} {
		add(f.Status, f.Code)
	}
	for status, codes := range api.Faults {
		got := slices.Sorted(slices.Values(codes))
		if slices.Sort(want[status]); !slices.Equal(got, want[status]) {
			t.Errorf("%d is answered with %q, and described with %q", status, want[status], got)
		}
	}
}
