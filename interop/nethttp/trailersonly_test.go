package nethttp

import (
	"net/http"
	"strings"
)

// trailersOnly serves by next and sends an error that comes before any message as
// gRPC's servers do: in the response headers, with nothing after them. It holds
// response headers back until there is a message.
func trailersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := &headersHeld{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(held, r)
		if held.sent {
			return
		}
		header := w.Header()
		header.Del("Trailer")
		for key, values := range header {
			if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
				delete(header, key)
				header[http.CanonicalHeaderKey(name)] = values
			}
		}
		w.WriteHeader(held.code)
	})
}

// headersHeld sends headers with the first bytes of the body.
type headersHeld struct {
	http.ResponseWriter

	code int
	sent bool
}

func (h *headersHeld) WriteHeader(code int) { h.code = code }

func (h *headersHeld) Write(p []byte) (int, error) {
	if !h.sent {
		h.sent = true
		h.ResponseWriter.WriteHeader(h.code)
	}
	return h.ResponseWriter.Write(p)
}

func (h *headersHeld) Flush() {
	if h.sent {
		h.ResponseWriter.(http.Flusher).Flush()
	}
}
