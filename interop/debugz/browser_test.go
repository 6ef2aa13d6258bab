// Package debugz opens the debug page in a browser.
package debugz

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience is how long a test waits for the browser, which takes its time on a busy
// machine.
const patience = 3 * time.Minute

// findBrowser returns the path of a Chromium.
func findBrowser(t *testing.T) string {
	t.Helper()
	var err error
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		var path string
		if path, err = exec.LookPath(name); err == nil {
			return path
		}
	}
	tool.Missing(t, "Chromium", "apt-get install -y chromium", err)
	return ""
}

// tab is a tab of a headless browser. It collects what the browser complains about.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp's handle of the tab

	mu         sync.Mutex
	complaints []string
}

func openTab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)), chromedp.WindowSize(1040, 800))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which Chromium refuses root
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancelAllocator)
	ctx, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(cancelTab)
	tb := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tb.listen); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits for the browser's end
	call(tb, log.Enable, cdp.Empty{})
	return tb
}

// listen notes errors, violations of the Content-Security-Policy among them.
func (tb *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console: %s %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s %s: %s", e.Entry.Source, e.Entry.Level, e.Entry.Text)
	default:
		return
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.complaints = append(tb.complaints, text)
}

// expectNoComplaints fails the test if the browser had any.
func (tb *tab) expectNoComplaints() {
	tb.t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, c := range tb.complaints {
		tb.t.Errorf("the browser complains: %s", c)
	}
}

// run does something in the tab, and returns what comes of it.
func run[T any](tb *tab, what string, action chromedp.Action[T]) T {
	tb.t.Helper()
	value, err := chromedp.Run(tb.ctx, action)
	if err != nil {
		tb.t.Fatalf("%s: %v", what, err)
	}
	return value
}

// call gives the tab a command.
func call[P, R any](tb *tab, command cdp.Command[P, R], params P) {
	tb.t.Helper()
	if _, err := chromedp.Call(tb.ctx, command, params); err != nil {
		tb.t.Fatalf("%s: %v", command.Method, err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	return run(tb, expression, chromedp.Evaluate[T](expression))
}

// open goes to a page.
func (tb *tab) open(url string) {
	tb.t.Helper()
	run(tb, "open "+url, chromedp.Navigate(url))
}

// press presses a key.
func (tb *tab) press(key string) {
	tb.t.Helper()
	run(tb, "press a key", chromedp.KeyEvent(key))
}

// resize gives the page another size.
func (tb *tab) resize(width, height int64) {
	tb.t.Helper()
	run(tb, "resize", chromedp.EmulateViewport(width, height))
}

// text is what a reader sees.
func (tb *tab) text() string {
	tb.t.Helper()
	return eval[string](tb, "document.body ? document.body.innerText : ''")
}

// await waits until the page shows a text.
func (tb *tab) await(want string) {
	tb.t.Helper()
	tb.until("the page shows "+want, func() bool { return strings.Contains(tb.text(), want) })
}

// until waits for what nothing announces.
func (tb *tab) until(what string, holds func() bool) {
	tb.t.Helper()
	for !holds() {
		select {
		case <-tb.ctx.Done():
			tb.t.Fatalf("never happened: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shoot keeps a picture of what the tab shows: go test -artifacts tells where.
func (tb *tab) shoot(name string, full bool) {
	tb.t.Helper()
	action := chromedp.CaptureScreenshot()
	if full {
		const lossless = 100
		action = chromedp.FullScreenshot(lossless)
	}
	picture := run(tb, "take a picture", action)
	path := filepath.Join(tb.t.ArtifactDir(), name+".png")
	if err := os.WriteFile(path, picture, 0o600); err != nil {
		tb.t.Fatal(err)
	}
	if len(picture) < 10_000 {
		tb.t.Errorf("%s has %d bytes: is it blank?", path, len(picture))
	}
}
