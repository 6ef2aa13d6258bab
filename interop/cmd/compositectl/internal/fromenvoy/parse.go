package fromenvoy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxYAML is how large YAML may be, in bytes: it takes much longer to read than
	// JSON.
	maxYAML = 4 << 20
	// maxNodes is how many values a file may have, with those of each alias
	// counted: a few lines of YAML can stand for billions.
	maxNodes = 2_000_000
	// maxText is how much text YAML may have in its values, in bytes, with that of
	// each alias counted.
	maxText = 16 << 20
	// maxDepth is how many objects and lists a file may have in one another.
	maxDepth = 200
)

var (
	errNodes = fmt.Errorf("it has more than %d values", maxNodes)
	errText  = fmt.Errorf("it has more than %d bytes of text, with that of each alias counted", maxText)
	errDepth = fmt.Errorf("it has more than %d objects and lists in one another", maxDepth)
)

// parse reads YAML, of one document or several, or JSON.
func parse(data []byte) ([]*node, error) {
	if json.Valid(data) {
		n, err := parseJSON(data)
		return []*node{n}, err
	}
	if len(data) > maxYAML {
		return nil, fmt.Errorf("it is not JSON, and YAML may have %d bytes at the most", maxYAML)
	}
	nodes, err := parseYAML(data)
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		// The words of a YAML reader about JSON help nobody.
		var syntax *json.SyntaxError
		if e := json.Unmarshal(data, new(json.RawMessage)); errors.As(e, &syntax) {
			line := bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")) + 1
			return nil, fmt.Errorf("line %d: it is neither JSON (%w) nor YAML", line, syntax)
		}
	}
	return nodes, err
}

type jsonReader struct {
	data   []byte
	dec    *json.Decoder
	line   int // of the byte at offset
	offset int
	nodes  int
}

func parseJSON(data []byte) (*node, error) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	return r.value(0)
}

// token returns the next token and its line.
func (r *jsonReader) token() (json.Token, int, error) {
	t, err := r.dec.Token()
	end := int(r.dec.InputOffset())
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return t, r.line, err
}

func (r *jsonReader) value(depth int) (*node, error) {
	t, line, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.nodes++; r.nodes > maxNodes {
		return nil, errNodes
	}
	if depth > maxDepth {
		return nil, errDepth
	}
	n := &node{line: line}
	switch t {
	case json.Delim('{'):
		for r.dec.More() {
			key, line, err := r.token()
			if err != nil {
				return nil, err
			}
			value, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.fields = append(n.fields, &field{snake(fmt.Sprint(key)), line, value})
		}
		_, _, err = r.token()
	case json.Delim('['):
		n.isList = true
		for r.dec.More() {
			item, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		_, _, err = r.token()
	case nil:
	default:
		n.scalar = fmt.Sprint(t)
	}
	return n, err
}

func parseYAML(data []byte) ([]*node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var nodes []*node
	var r yamlReader
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nodes, nil
		case err != nil:
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		n, err := r.value(&doc, 0)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
}

// yamlReader counts what it has read, each alias anew.
type yamlReader struct{ nodes, text int }

func (r *yamlReader) value(y *yaml.Node, depth int) (*node, error) {
	if r.nodes++; r.nodes > maxNodes {
		return nil, errNodes
	}
	if r.text += len(y.Value); r.text > maxText {
		return nil, errText
	}
	if depth > maxDepth {
		return nil, errDepth
	}
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 0 {
			return n, nil
		}
		return r.value(y.Content[0], depth+1)
	case yaml.AliasNode:
		return r.value(y.Alias, depth+1)
	case yaml.MappingNode:
		for i := 0; i+1 < len(y.Content); i += 2 {
			value, err := r.value(y.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			key := y.Content[i]
			r.text += len(key.Value)
			n.fields = append(n.fields, &field{snake(key.Value), key.Line, value})
		}
	case yaml.SequenceNode:
		n.isList = true
		for _, item := range y.Content {
			value, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, value)
		}
	case yaml.ScalarNode:
		if y.Tag != "!!null" {
			n.scalar = y.Value
		}
	default:
	}
	return n, nil
}
