package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	textIndent = "       "
	textWidth  = 90 // of the lines of a text, in characters
)

// Output is where an example prints. After a write that failed nothing is written
// any more.
type Output struct {
	w     io.Writer
	err   error
	steps int
}

// NewOutput returns an output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Printf prints as fmt.Printf does.
func (o *Output) Printf(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}

// Step prints the title of the next step, with its number.
func (o *Output) Step(title string) {
	o.steps++
	o.Printf("\n%d. %s\n", o.steps, title)
}

// Text prints a long text, indented and in lines.
func (o *Output) Text(text string) {
	for _, line := range Wrap(text, textWidth) {
		o.Printf(textIndent+"%s\n", line)
	}
}

// Err returns the error of the write that failed, or nil.
func (o *Output) Err() error { return o.err }

// Milliseconds writes a duration as people compare them.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// Wrap breaks a text into lines, at spaces only. A word longer than a line has
// one of its own.
func Wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}
