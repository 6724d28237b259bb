package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets/*
var assetFiles embed.FS

//go:embed templates/*.html
var templateFiles embed.FS

// assets are the files that pages name, each with the sum of its bytes, so that a
// browser may keep it for ever and never shows an old one.
var assets = func() map[string]asset {
	found := map[string]asset{}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, e := range entries {
		data, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		found[e.Name()] = asset{data: data, version: hex.EncodeToString(sum[:6]), kind: kindOf(e.Name())}
	}
	return found
}()

type asset struct {
	data          []byte
	version, kind string
}

func kindOf(name string) string {
	switch path.Ext(name) { // a machine's own table may say otherwise
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func (d *dashboard) asset(w http.ResponseWriter, r *http.Request) {
	a, found := assets[r.PathValue("name")]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("ETag", `"`+a.version+`"`)
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), a.version) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.data) // a browser that went away needs no answer
}

// templates are the page of one kind.
type templates = template.Template

// parse makes the templates: each page's own main part, in the frame of all.
func parse() map[string]*templates {
	frame := template.Must(template.New("frame").Funcs(template.FuncMap{
		"asset": func(name string) string { return "/assets/" + name + "?v=" + assets[name].version },
		"spans": func(s any) []span { return spans(textOf(s)) }, "plain": func(s any) string { return plain(textOf(s)) }, "short": shortText, "bytes": sized, "number": numberOf, "plural": plural, "spaced": func(s any) string { return spaced(textOf(s)) },
		"clock": clock, "day": day, "exact": exact, "arg": arg, "text": textOf, "ended": handoffEnd, "join": strings.Join,
		"plus": func(a, b int) int { return a + b }, "size": func(s string) int64 { return int64(len(s)) }, "headline": headline,
	}).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html"))
	found := map[string]*templates{}
	for _, name := range []string{"shell", "threads", "thread", "owed", "mailboxes", "mailbox", "refusals", "health", "keys", "compose", "trouble"} {
		found[name] = template.Must(template.Must(frame.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return found
}
