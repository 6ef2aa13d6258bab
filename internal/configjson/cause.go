package configjson

import (
	"encoding/json"
	"strconv"
	"strings"
)

// minPlain is the length, in bytes, from which on a secret is hidden wherever it is,
// and not only in quotes.
const minPlain = 4

// Cause is what another policy's parser says of its config, fit to be shown: parsers
// quote the whole config, which may be long and have request metadata in it, of a
// composite policy inside. It unwraps to what the parser said.
func Cause(err error, config json.RawMessage) error {
	text := err.Error()
	var v any
	if json.Unmarshal(config, &v) == nil {
		for _, secret := range metadataValues(v, false, nil) {
			text = hide(text, secret)
		}
	}
	return &cause{cut(strings.ToValidUTF8(text, "\uFFFD"), maxCause), err}
}

type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }

func (c *cause) Unwrap() error { return c.err }

// metadataValues appends the values of all request metadata in a config to a list:
// the strings in whatever is called "metadata".
func metadataValues(v any, inside bool, list []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			list = metadataValues(value, inside || key == "metadata", list)
		}
	case []any:
		for _, value := range v {
			list = metadataValues(value, inside, list)
		}
	case string:
		if inside {
			list = append(list, v)
		}
	}
	return list
}

// hide hides a value in a text that may quote it as JSON or Go does, or not at all.
func hide(text, secret string) string {
	const hidden = "***"
	quoted := []string{strconv.Quote(secret)}
	if text, err := json.Marshal(secret); err == nil {
		quoted = append(quoted, string(text))
	}
	for _, q := range quoted {
		text = strings.ReplaceAll(text, q, strconv.Quote(hidden))
		if len(secret) >= minPlain {
			text = strings.ReplaceAll(text, q[1:len(q)-1], hidden)
		}
	}
	if len(secret) >= minPlain {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}
