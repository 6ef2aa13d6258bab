package main

import (
	"fmt"
	"html"
	"strings"
)

// Sizes of the picture, in its own units.
const (
	svgWidth    = 920
	svgMargin   = 24
	panelGap    = 36
	panelHead   = 30
	rowHeight   = 20
	barHeight   = 12
	labelWidth  = 84
	numberWidth = 112
	panelWidth  = (svgWidth - 2*svgMargin - panelGap) / 2
	barWidth    = panelWidth - labelWidth - numberWidth
)

// svgStyle has colours for light and dark, of which the text on the background has a
// contrast of 7 to 1 and the bars one of 3 to 1 at least.
const svgStyle = `<style>
svg{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}
.back{fill:#fff}.text{fill:#1f2328}.soft{fill:#4d5761}
.bar{fill:#8c959f}.own{fill:#0a62d0}.proxy{fill:#b35900}
.head{font-weight:600}.title{font-size:16px;font-weight:600}.num{font-variant-numeric:tabular-nums}
@media (prefers-color-scheme:dark){
.back{fill:#0d1117}.text{fill:#e6edf3}.soft{fill:#a9b3be}
.bar{fill:#6e7681}.own{fill:#58a6ff}.proxy{fill:#e8923a}}
</style>
`

// panel is a chart of bars, a line for each contender.
type panel struct {
	title string
	bars  []bar
}

// bar has two parts, of which the second may be nothing.
type bar struct {
	contender    string
	first, proxy float64
	text         string
}

// picture draws the results: latency of every workload, and CPU of those that are
// nothing but RPCs.
func picture(r *results) string {
	var latency, cpu []panel
	for _, w := range workloads {
		p := panel{title: w.title}
		c := panel{title: w.title}
		for _, who := range contenders {
			got := r.find(w.name, who.name)
			if got == nil {
				continue
			}
			p.bars = append(p.bars, bar{who.name, got.P50, 0,
				duration(got.P50) + factor(r.ratio(w.name, who.name, bare, turnP50))})
			c.bars = append(c.bars, bar{who.name, got.ClientCPU, got.ProxyCPU,
				number(got.cpu()) + factor(r.totalRatio(w.name, who.name, bare, cell.cpu))})
		}
		if len(p.bars) == 0 {
			continue
		}
		latency = append(latency, p)
		if w.first == healthy && !strings.Contains(w.name, "100") {
			cpu = append(cpu, c)
		}
	}
	var b strings.Builder
	y := svgMargin
	y = section(&b, y, "Median latency (× a bare channel)", latency)
	y = section(&b, y, "CPU in ms per 1,000 RPCs: client, and in another colour the proxy (× a bare channel)", cpu)
	foot := fmt.Sprintf("%s, grpc-go %s, %s, %d processors, %s", r.Go, r.GRPC, r.System, r.CPUs, r.When.Format("2006-01-02"))
	label(&b, svgMargin, y+8, "soft", "start", foot)
	height := y + 8 + svgMargin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="what">
<title id="what">Latency and CPU of RPCs by composite, beside other ways to fail over. The page benchmarks.md has the numbers.</title>
%s<rect class="back" width="%d" height="%d"/>
%s</svg>
`, svgWidth, height, svgWidth, height, svgStyle, svgWidth, height, b.String())
}

// section draws panels in two columns, and returns where it ends.
func section(b *strings.Builder, y int, title string, panels []panel) int {
	if len(panels) == 0 {
		return y
	}
	label(b, svgMargin, y+12, "text title", "start", title)
	y += 36
	for i := 0; i < len(panels); i += 2 {
		pair := panels[i:min(i+2, len(panels))]
		rows := 0
		for column, p := range pair {
			p.draw(b, svgMargin+column*(panelWidth+panelGap), y)
			rows = max(rows, len(p.bars))
		}
		y += panelHead + rows*rowHeight + 16
	}
	return y + 8
}

func (p panel) draw(b *strings.Builder, x, y int) {
	label(b, x, y+12, "text head", "start", p.title)
	most := 0.0
	for _, bar := range p.bars {
		most = max(most, bar.first+bar.proxy)
	}
	if most == 0 {
		return
	}
	y += panelHead
	for _, bar := range p.bars {
		class, text := "bar", "soft"
		if bar.contender == ours || bar.contender == lean {
			class, text = "own", "text head"
		}
		label(b, x+labelWidth-8, y, text, "end", bar.contender)
		first, proxy := bar.first/most*barWidth, bar.proxy/most*barWidth
		rectangle(b, class, float64(x+labelWidth), y, first)
		if proxy > 0 {
			rectangle(b, "proxy", float64(x+labelWidth)+first, y, proxy)
		}
		label(b, x+labelWidth+int(first+proxy)+6, y, text+" num", "start", bar.text)
		y += rowHeight
	}
}

// rectangle is centred on the line that text at y stands on.
func rectangle(b *strings.Builder, class string, x float64, y int, width float64) {
	fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", class, x, y-barHeight+2, max(width, 1), barHeight)
}

func label(b *strings.Builder, x, y int, class, anchor, text string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}

// duration is of µs.
func duration(us float64) string {
	if us >= 1000 {
		return number(us/1000) + " ms"
	}
	return number(us) + " µs"
}

func factor(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return " (×" + times(ratio) + ")"
}
