package main

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"text/template"
)

// The places in the picture of a conversation, in the SVG's units.
const (
	laneWidth, laneHeight = 640.0, 112.0
	laneLeft, laneTop     = 52.0, 62.0
	laneEvery             = 206.0
	lanesRight, lanesLow  = 28.0, 44.0
)

//go:embed conversation.svg.tmpl
var conversationText string

var conversationTemplate = template.Must(template.New("conversation").Parse(conversationText))

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

// lane is one conversation over time.
type lane struct {
	Class        string
	Title, Sum   string
	Y            float64
	Ticks, Marks []tick
	From, To     float64 // the outage
	Note         string  // in the outage
	Path         string  // what the agent has said
	Arrived      *curve  // what upstream has; nil if that is the same
	Lost         []dot
	End          dot
}

func (r *conversationReport) plot(name string) (err error) {
	cut, spared := r.Runs[2], r.Runs[3]
	longest := 0.0
	for _, h := range []*held{cut, spared} {
		longest = max(longest, h.Wall, h.Gone+h.Outage.Seconds()+h.CaughtUp)
	}
	step := niceStep(longest)
	across := scale{seconds: math.Ceil(longest/step) * step, messages: float64(r.Options.Messages)}
	lanes := []lane{across.lane(cut, 0, step), across.lane(spared, 1, step)}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return conversationTemplate.Execute(file, map[string]any{
		"Width": laneLeft + laneWidth + lanesRight, "Height": laneTop + laneEvery + laneHeight + lanesLow,
		"Left": laneLeft, "LaneWidth": laneWidth, "LaneHeight": laneHeight, "Lanes": lanes,
		"Messages": r.Options.Messages, "Machine": r.Machine.String(), "Client": r.Client, "Latency": r.Options.Latency,
	})
}

// scale has the largest values of the two axes.
type scale struct{ seconds, messages float64 }

func (s scale) at(seconds float64, messages int) dot {
	return dot{laneWidth * seconds / s.seconds, laneHeight * (1 - float64(messages)/s.messages)}
}

func (s scale) lane(h *held, n int, step float64) lane {
	l := lane{Class: "direct", Title: counted(len(h.Said)) + " directly", Y: laneTop + float64(n)*laneEvery, Note: "upstream is gone for " + whole(h.Outage)}
	l.Sum = fmt.Sprintf("%s in all; %s lost, after a wait of up to %s", inSeconds(h.Wall), counted(h.Lost), inSeconds(h.Longest))
	if h.Through {
		l.Class, l.Title = "through", counted(len(h.Said))+" through botwired"
		l.Sum = fmt.Sprintf("%s in all; none lost, and upstream has them %s after its return", inSeconds(h.Wall), inSeconds(h.CaughtUp))
	}
	for _, share := range []float64{0, 0.5, 1} {
		l.Ticks = append(l.Ticks, tick{laneHeight * (1 - share), fmt.Sprint(int(s.messages * share))})
	}
	for at := 0.0; at <= s.seconds; at += step {
		l.Marks = append(l.Marks, tick{s.at(at, 0).X, fmt.Sprintf("%g s", at)})
	}
	l.From, l.To = s.at(h.Gone, 0).X, s.at(h.Gone+h.Outage.Seconds(), 0).X
	count := 0
	path := curve{Dots: []dot{s.at(0, 0)}}
	for _, each := range h.Said {
		if each.Error == "" {
			count++
		} else {
			l.Lost = append(l.Lost, s.at(each.End, count))
		}
		l.End = s.at(each.End, count)
		path.Dots = append(path.Dots, l.End)
	}
	l.Path = path.Path()
	if h.Through {
		l.Arrived = s.steps(h.Arrived)
	}
	return l
}

// steps draws what upstream has: it rises as a write arrives, and stays until the next.
func (s scale) steps(arrived []arrival) *curve {
	c := &curve{Dots: []dot{s.at(0, 0)}}
	for _, a := range arrived {
		here := s.at(a.At, a.Messages)
		c.Dots = append(c.Dots, dot{here.X, c.Dots[len(c.Dots)-1].Y}, here)
	}
	return c
}

func counted(messages int) string {
	if messages == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", messages)
}

// niceStep divides an axis into four to eight parts of a round size.
func niceStep(longest float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(longest)))
	for _, times := range []float64{0.2, 0.5, 1} {
		if longest/(times*unit) <= 8 {
			return times * unit
		}
	}
	return 2 * unit
}

// Last is where a curve ends.
func (c curve) Last() dot { return c.Dots[len(c.Dots)-1] }

// Width is how long the outage lasts, and Middle is in the middle of it.
func (l lane) Width() float64 { return l.To - l.From }

// Middle is where the note about the outage stands.
func (l lane) Middle() float64 { return (l.From + l.To) / 2 }
