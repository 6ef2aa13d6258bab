package debugz

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"
)

// TestPage opens the page while a program runs, kills the primary, and sees the page
// change without a reload.
func TestPage(t *testing.T) {
	tb := openTab(t)
	p := startProgram(t)
	tb.open(p.url)
	tb.await("RPCs go to primary.")
	tb.await("Live")
	tb.shoot("healthy", false)
	eval[bool](tb, "window.unloaded = false")

	p.primary.Stop()
	tb.await("RPCs go to secondary: primary is passed over (transient failure).")
	if !eval[bool](tb, "window.unloaded === false") {
		t.Error("the page was loaded again")
	}
	if news := eval[string](tb, "document.querySelector('[role=status]').textContent"); !strings.Contains(news, "primary: no host: transient failure") {
		t.Errorf("a screen reader is told %q", news)
	}
	tb.await("secondary → secondary") // a trail: attempts 1 and 2
	tb.await("passed over, so on to")
	tb.resize(1040, 920)
	tb.shoot("failed-over", false)
	tb.shoot("failed-over-full", true)

	t.Run("contrast", func(*testing.T) { tb.checkContrast() })
	t.Run("dark", func(*testing.T) {
		call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		if dark := eval[string](tb, "getComputedStyle(document.body).backgroundColor"); dark != "rgb(14, 17, 22)" {
			t.Errorf("the page is %s in dark mode", dark)
		}
		tb.checkContrast()
		tb.shoot("dark", false)
		call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	})
	t.Run("narrow", func(*testing.T) {
		tb.resize(360, 740)
		wide := eval[[]string](tb, `[...document.querySelectorAll("body *")].filter(e => !e.closest(".unseen, .skip, .sprite") && e.getBoundingClientRect().right > 360.5).map(e => e.outerHTML.slice(0, 80))`)
		if width := eval[int](tb, "document.documentElement.scrollWidth"); width > 360 || len(wide) > 0 {
			t.Errorf("the page is %d wide on a screen of 360: %q", width, wide)
		}
		tb.shoot("narrow", true)
		tb.resize(1040, 800)
	})
	t.Run("keyboard", func(*testing.T) { tb.checkKeyboard() })
	t.Run("back", func(*testing.T) {
		p.primary.Restart(t)
		tb.await("RPCs go to primary.")
	})
	t.Run("closed", func(*testing.T) {
		_ = p.cc.Close()
		tb.await("No channel of this process has the policy")
	})
	tb.expectNoComplaints()

	p.server.Close()
	tb.await("No answer from the program; trying again")
}

// TestPageWithoutScript: the page then loads itself again.
func TestPageWithoutScript(t *testing.T) {
	tb := openTab(t)
	p := startProgram(t)
	call(tb, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	tb.open(p.url)
	tb.await("RPCs go to primary.")
	if text := tb.text(); strings.Contains(text, "Live") || strings.Contains(text, "Pause") || !strings.Contains(text, "Reload") {
		t.Errorf("the page promises what takes a script:\n%s", text)
	}
	p.primary.Stop()
	tb.await("RPCs go to secondary")
	tb.expectNoComplaints()
}

// checkContrast checks what is seen against the 4.5 to 1 of WCAG 2.
func (tb *tab) checkContrast() {
	tb.t.Helper()
	poor := eval[[]string](tb, `(() => {
		const rgb = (s) => s.match(/[\d.]+/g).map(Number);
		const light = (c) => { const l = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
		const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
		const poor = new Set();
		for (const e of document.querySelectorAll("body *")) {
			if (![...e.childNodes].some(n => n.nodeType === 3 && n.nodeValue.trim()) || !e.getClientRects().length || e.closest("script, .unseen, .skip")) continue;
			const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			const ratio = (a + 0.05) / (b + 0.05);
			if (ratio < 4.5) poor.add(ratio.toFixed(2) + " " + e.className + " " + e.textContent.trim().slice(0, 40));
		}
		return [...poor];
	})()`)
	for _, p := range poor {
		tb.t.Errorf("hard to read: %s", p)
	}
}

// checkKeyboard goes through the page by keys alone.
func (tb *tab) checkKeyboard() {
	tb.t.Helper()
	const focused = `(() => { const e = document.activeElement; return e.tagName + " " + e.textContent.trim().replace(/\s+/g, " "); })()`
	eval[bool](tb, "document.activeElement.blur(), scrollTo(0, 0), true")
	var reached []string
	tabUntil := func(want string) {
		tb.t.Helper()
		for range 60 {
			tb.press(kb.Tab)
			at := eval[string](tb, focused)
			reached = append(reached, at)
			if strings.HasPrefix(at, want) {
				if !eval[bool](tb, "document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
					tb.t.Errorf("nobody sees that %q has the focus", at)
				}
				return
			}
		}
		tb.t.Fatalf("the Tab key does not reach %q, but %q", want, slices.Compact(reached))
	}
	tabUntil("A Skip to the channels")
	tabUntil("BUTTON Pause")
	tb.press(kb.Enter)
	tb.await("Paused")
	tb.press(kb.Enter)
	tb.await("Live")
	tabUntil("A Reload")
	tabUntil("A JSON")
	for _, name := range []string{"primary", "secondary", "fallback"} {
		tabUntil("A " + name)
	}
	tabUntil("SUMMARY")
	tb.press(kb.Enter)
	id := eval[string](tb, "document.activeElement.closest('li').id")
	open := fmt.Sprintf("(document.getElementById(%q) || document.activeElement.closest('li')).querySelector('details').open", id)
	if !eval[bool](tb, open) {
		tb.t.Error("Enter does not open a trail")
	}
	before := eval[string](tb, "document.querySelector('main time').textContent")
	tb.until("an update", func() bool { return eval[string](tb, "document.querySelector('main time').textContent") != before })
	if !eval[bool](tb, open) || !strings.HasPrefix(eval[string](tb, focused), "SUMMARY") {
		tb.t.Error("an update closes what was opened, or takes the focus")
	}
	eval[bool](tb, "document.activeElement.scrollIntoView({block: 'center'}), true")
	tb.shoot("trail", false)
}
