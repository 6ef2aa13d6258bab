package debugz

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // of the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed style.css
	styleCSS string
	//go:embed script.js
	scriptJS string
)

// Handler returns a handler for the page, at any path. From the first call on, for
// the rest of the process, picks are counted and trails kept; until then there is no
// cost. The handler only reads, and is safe for concurrent use. It answers GET and
// HEAD.
//
// It needs no secret and shows none: the user info of targets is hidden, and no page
// of another origin may embed or read it. It does tell names, addresses and errors
// of servers, so that it belongs on a port for administrators.
func Handler() http.Handler {
	inspect.Watch()
	h := &handler{
		page:  template.Must(template.New("page").Funcs(functions).Parse(pageHTML)),
		build: hash(pageHTML + styleCSS + scriptJS),
	}
	h.policy = strings.Join([]string{
		"default-src 'none'",
		"script-src 'sha256-" + hash(scriptJS) + "'",
		"style-src 'sha256-" + hash(styleCSS) + "'",
		"connect-src 'self'",
		"img-src data:",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
	return h
}

// hash is what a Content-Security-Policy knows an inline script or style by.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

type handler struct {
	page   *template.Template
	policy string // the Content-Security-Policy
	build  string // tells a page that its script is of another version
}

// pageData is what the template gets.
type pageData struct {
	*processView

	Build  string
	Style  template.CSS
	Script template.JS
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", h.policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "debugz: only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	var body bytes.Buffer
	var err error
	switch format := r.URL.Query().Get("format"); format {
	case "":
		header.Set("Content-Type", "text/html; charset=utf-8")
		err = h.page.Execute(&body, pageData{
			processView: newProcessView(inspect.Now()),
			Build:       h.build,
			Style:       template.CSS(styleCSS), //nolint:gosec // our own
			Script:      template.JS(scriptJS),  //nolint:gosec // our own
		})
	case "json":
		header.Set("Content-Type", "application/json; charset=utf-8")
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(inspect.Now())
	default:
		http.Error(w, fmt.Sprintf("debugz: format: %q: must be json, or left out", inspect.Text(format)), http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, "debugz: "+err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = body.WriteTo(w) // an error means that nobody listens any more
}
