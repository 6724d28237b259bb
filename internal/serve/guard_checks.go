package serve

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PathBytesMax bounds a path as it is written in a request.
const PathBytesMax = 2048

// checkPath refuses a path that two readers could read differently: with a step
// up or an empty step, with characters that cannot be shown, or with a slash
// that is only spelled out. Under /v1/ such a slash is part of a name.
func checkPath(r *http.Request) *Fault {
	path, written := r.URL.Path, r.URL.EscapedPath()
	switch {
	case len(written) > PathBytesMax:
		return pathTooLong()
	case !strings.HasPrefix(path, "/") || r.URL.Opaque != "":
		return badPath("it does not begin with a slash")
	case !utf8.ValidString(path) || strings.ContainsFunc(path, func(c rune) bool { return unicode.Is(unicode.C, c) || c == utf8.RuneError }):
		return badPath("it holds a character that cannot be shown")
	case strings.Contains(path, `\`):
		return badPath("it holds a backslash")
	case !isAPI(path) && strings.Contains(strings.ToLower(written), "%2f"):
		return badPath("it holds a slash that is spelled out")
	}
	steps := strings.Split(path, "/")[1:]
	for i, step := range steps {
		if step == "." || step == ".." || step == "" && i < len(steps)-1 {
			return badPath("it holds an empty step, or one up or to itself")
		}
	}
	return nil
}

// checkHost refuses a request that was sent to another name than this server's:
// a page from elsewhere can have its own name point here, and would then read
// what is answered as its own. A name cannot point at the socket.
func (g *Guard) checkHost(r *http.Request) *Fault {
	if isSocket(r) {
		return nil
	}
	name := hostName(r.Host)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	ip := net.ParseIP(name)
	switch {
	case name == "localhost" || ip != nil && ip.IsLoopback():
		return nil
	case ip != nil && local != nil && local.IP.Equal(ip):
		return nil
	case name != "" && slices.ContainsFunc(g.config.Hosts, func(h string) bool { return strings.EqualFold(h, name) }):
		return nil
	}
	return badHost()
}

// hostName is a host without its port and brackets, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// checkOrigin refuses what another page has a browser do here: to change
// anything, or to reach the API at all. Browsers say where a request comes from,
// and a page cannot make them lie; what is no browser says nothing. No answer
// ever allows another page to read it.
func checkOrigin(r *http.Request) *Fault {
	if looks(r.Method) && !isAPI(r.URL.Path) {
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return crossSite()
	}
	switch origins := r.Header.Values("Origin"); len(origins) {
	case 0:
		// A browser says at least one of the two with whatever it sends but looks.
		_, err := r.Cookie(CookieName)
		if err == nil && !isAPI(r.URL.Path) && r.Header.Get("Sec-Fetch-Site") == "" {
			return crossSite()
		}
		return nil
	case 1:
		if isOrigin(origins[0], r) {
			return nil
		}
	}
	return crossSite()
}

// isOrigin says whether an origin is that of the server as this request reached it.
func isOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && u.Host != "" && strings.EqualFold(u.Host, r.Host) && u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// protect sets what tells a browser to keep to itself what it is given. A
// handler of assets may allow them to be kept.
func protect(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	name := hostName(r.Host)
	if r.TLS != nil && name != "localhost" && net.ParseIP(name) == nil {
		// Of localhost it would hold for every other program there, too.
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}
