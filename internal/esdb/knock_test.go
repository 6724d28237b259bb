package esdb

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"decklog/internal/esdbdouble"
)

// The client tries for ever, and its error only says that time was over.
func TestWhyNobodyCanBeConnectedToIsSaid(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	double := strings.TrimPrefix(strings.TrimSuffix(start(t, esdbdouble.Config{}).URL(), "?tls=false"), "esdb://")
	secure := httptest.NewUnstartedServer(nil)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	withTLS := secure.Listener.Addr().String()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := free.Addr().String()
	must(t, free.Close())
	for _, c := range []struct{ address, why string }{
		{double + "?tls=false", ""},
		{nobody + "?tls=false", "connection refused"},
		{nobody + "," + double + "?tls=false", ""},
		{"nobody.invalid:2113", "lookup nobody.invalid"},
		{double, "does not speak TLS, and the address does not say tls=false"},
		{withTLS + "?tls=false", "speaks TLS, and the address says tls=false"},
		{withTLS, "certificate signed by unknown authority"},
		{withTLS + "?tlsCaFile=" + authority, ""},
		{withTLS + "?tlsVerifyCert=false", ""},
	} {
		a, err := Parse("esdb://" + c.address)
		must(t, err)
		switch err := Knock(t.Context(), a); {
		case err == nil && c.why == "":
		case err == nil || c.why == "" || code(err) != "unreachable" || !strings.Contains(err.Error(), c.why):
			t.Errorf("%s: %v, not %q", c.address, err, c.why)
		}
	}
}
