package surroundings

import (
	"os"
	"strings"
	"testing"
)

// A machine goes by the name that it is given, as long as streams and addresses can
// hold it.
func TestAMachineGoesByTheNameThatItIsGiven(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name: ", err)
	}
	for given, want := range map[string]string{
		"": host, "deck-a": "deck-a", "build_3.example": "build_3.example",
		"-a": host, "a b": host, "a/b": host, "a\n": host, strings.Repeat("a", 254): host,
	} {
		t.Setenv("DECKLOG_DEVICE", given)
		if got := Device(); got != want {
			t.Errorf("%q is called %q", given, got)
		}
	}
}
