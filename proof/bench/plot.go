package main

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"text/template"
)

// The panels' places, in the SVG's units.
const (
	panelWidth, panelHeight = 220.0, 120.0
	panelLeft, panelTop     = 62.0, 52.0
	panelEvery, rowEvery    = 300.0, 200.0
	panelsInRow             = 3
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Parse(plotText))

// panel is one figure over the number of entries.
type panel struct {
	Title  string
	X, Y   float64 // of its upper left corner
	Ticks  []tick  // on the vertical axis
	Marks  []tick  // on the horizontal axis
	Curves []curve
}

// tick is a place on an axis, with a text.
type tick struct {
	At   float64
	Text string
}

// curve is the figure in one state, as points of a polyline. Its classes say how it is drawn.
type curve struct {
	Classes string
	Dots    []dot
}

type dot struct{ X, Y float64 }

// Path returns the points in a polyline's form.
func (c curve) Path() (path string) {
	for _, d := range c.Dots {
		path += fmt.Sprintf("%.1f,%.1f ", d.X, d.Y)
	}
	return path
}

// plot draws the points as an SVG, legible on light and on dark ground.
func (r *growthReport) plot(name string) (err error) {
	panels := []panel{
		r.panel("GET p50", duration, func(p *point) float64 { return p.Get.P50 }),
		r.panel("first GET, p50", duration, func(p *point) float64 { return p.First.P50 }),
		r.panel("PUT p50", duration, func(p *point) float64 { return p.Put.P50 }),
		r.panel("resident memory", bytesShown, func(p *point) float64 { return float64(p.RSS) }),
		r.panel("ready after a kill", func(v float64) string { return duration(v * 1e6) }, func(p *point) float64 { return p.Ready }),
		r.panel("on disk", bytesShown, func(p *point) float64 { return float64(p.Disk) }),
		r.panel("drain, writes a second", thousands, func(p *point) float64 { return p.Drain.PerSecond() }),
	}
	rows := len(panels)/panelsInRow + 1 // the legend is in the last one
	for i := range panels {
		panels[i].X = panelLeft + float64(i%panelsInRow)*panelEvery
		panels[i].Y = panelTop + float64(i/panelsInRow)*rowEvery
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return plotTemplate.Execute(file, map[string]any{
		"Width": panelLeft + panelsInRow*panelEvery - panelEvery + panelWidth + 28, "Height": panelTop + float64(rows)*rowEvery - 40,
		"PanelWidth": panelWidth, "PanelHeight": panelHeight,
		"Panels": panels, "Machine": r.Machine.String(),
		"Few": thousands(float64(r.Options.Namespaces)), "Many": thousands(float64(r.Options.WideNamespaces)),
		"LegendX": panelLeft + float64(len(panels)%panelsInRow)*panelEvery, "LegendY": panelTop + float64(rows-1)*rowEvery,
	})
}

func bytesShown(v float64) string { return megabytes(int64(v)) }

// panel places the points. The horizontal axis is logarithmic in the number of entries,
// and the vertical one begins at zero.
func (r *growthReport) panel(title string, show func(float64) string, figure func(*point) float64) panel {
	p := panel{Title: title}
	least, most, highest := math.Inf(1), math.Inf(-1), 0.0
	for _, each := range r.Points {
		least, most = min(least, math.Log10(float64(each.Entries))), max(most, math.Log10(float64(each.Entries)))
		highest = max(highest, figure(each))
	}
	top := niceAbove(highest)
	x := func(entries int) float64 {
		return panelWidth * (math.Log10(float64(entries)) - least) / max(most-least, 1)
	}
	y := func(v float64) float64 { return panelHeight * (1 - v/top) }
	for i := range 3 {
		v := top * float64(i) / 2
		p.Ticks = append(p.Ticks, tick{y(v), show(v)})
	}
	p.Ticks[0].Text = "0"
	byClasses, marked := map[string]int{}, map[int]bool{}
	for _, each := range r.Points {
		if figure(each) == 0 {
			continue // it was not measured there
		}
		classes := each.State
		if each.Namespaces == r.Options.WideNamespaces {
			classes += " wide"
		}
		i, ok := byClasses[classes]
		if !ok {
			i = len(p.Curves)
			byClasses[classes] = i
			p.Curves = append(p.Curves, curve{Classes: classes})
		}
		p.Curves[i].Dots = append(p.Curves[i].Dots, dot{x(each.Entries), y(figure(each))})
		if !marked[each.Entries] {
			marked[each.Entries] = true
			p.Marks = append(p.Marks, tick{x(each.Entries), powerOfTen(each.Entries)})
		}
	}
	return p
}

// niceAbove returns the least of 1, 2, 4 and 6 times a power of ten that is not below
// v: half of it is round, too.
func niceAbove(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 2, 4, 6} {
		if v <= times*unit {
			return times * unit
		}
	}
	return 10 * unit
}

// powerOfTen writes 1000 as 10³.
func powerOfTen(n int) string {
	power := math.Log10(float64(n))
	if power != math.Trunc(power) || power > 9 {
		return thousands(float64(n))
	}
	return "10" + string([]rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[int(power)])
}
