package main

import (
	"fmt"
	"image/color"
	"io"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panel is one bar chart: its groups are tables, its bars candidates.
type panel struct{ title, prefix string }

func panels() []panel {
	return []panel{
		{"Verify a notification", "Verify, "},
		{"Verify and parse a notification", "Verify and parse, "},
		{"Make a call", "A call, "},
	}
}

// colours are told apart by the colour-blind too, and the SDK's stands out.
func colours() map[string]color.Color {
	return map[string]color.Color{
		ours:                color.RGBA{0xd5, 0x5e, 0x00, 0xff},
		byHand:              color.RGBA{0x59, 0x59, 0x59, 0xff},
		"stripe-go":         color.RGBA{0x00, 0x72, 0xb2, 0xff},
		"standard-webhooks": color.RGBA{0x00, 0x9e, 0x73, 0xff},
		"svix":              color.RGBA{0xcc, 0x79, 0xa7, 0xff},
		"paddle":            color.RGBA{0x56, 0xb4, 0xe9, 0xff},
		"resty":             color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	}
}

// drawPicture writes a picture of the tables as SVG: the time of each candidate divided by the best one's.
func drawPicture(w io.Writer, tables []table) error {
	const width, height = 28 * vg.Centimeter, 27 * vg.Centimeter
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: len(panels()), Cols: 1, PadY: vg.Centimeter / 2, PadRight: vg.Centimeter / 2, PadLeft: vg.Centimeter / 2, PadTop: vg.Centimeter / 2}
	for i, p := range panels() {
		chart, err := p.chart(tables)
		if err != nil {
			return err
		}
		chart.Draw(tiles.At(draw.New(canvas), 0, i))
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (p panel) chart(tables []table) (*plot.Plot, error) {
	chart := plot.New()
	chart.Title.Text = p.title + ": time, as a multiple of the best"
	chart.Title.Padding = vg.Points(8)
	chart.Y.Min = 0
	chart.Y.Tick.Marker = wholeNumbers{}
	chart.X.Tick.Length = 0
	chart.Legend.Top = true
	chart.Legend.XOffs = vg.Points(-8)
	chart.Legend.Padding = vg.Points(3)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	chart.Add(grid)
	for _, style := range []*text.Style{&chart.Title.TextStyle, &chart.Legend.TextStyle, &chart.X.Tick.Label, &chart.Y.Tick.Label} {
		style.Font.Variant = "Sans"
	}

	var groups []string
	var bars []string // in the order of the first table
	heights := map[string]plotter.Values{}
	for _, t := range tables {
		group, found := strings.CutPrefix(t.title, p.prefix)
		if !found {
			continue
		}
		groups = append(groups, group)
		for _, r := range t.rows {
			if r.bound {
				continue
			}
			if heights[r.who] == nil {
				bars = append(bars, r.who)
			}
			heights[r.who] = append(heights[r.who], r.toBest)
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("no table for the panel %q", p.title)
	}
	width := vg.Centimeter
	for i, who := range bars {
		offset := width * vg.Length(float64(i)-float64(len(bars)-1)/2)
		chart.Legend.Add(who, swatch{colours()[who]})
		if err := addBars(chart, heights[who], width, offset, colours()[who]); err != nil {
			return nil, err
		}
	}
	chart.NominalX(groups...)
	chart.X.Min = -0.5
	chart.X.Max = float64(len(groups)) + 0.1 // room for the legend
	chart.Y.Max *= 1.1                       // and for the numbers
	return chart, nil
}

// addBars draws one bar a group, with its height written above.
func addBars(chart *plot.Plot, heights plotter.Values, width, offset vg.Length, fill color.Color) error {
	bars, err := plotter.NewBarChart(heights, width*0.9)
	if err != nil {
		return err
	}
	bars.Offset = offset
	bars.Color = fill
	bars.LineStyle.Width = 0
	texts := plotter.XYLabels{}
	for i, height := range heights {
		texts.XYs = append(texts.XYs, plotter.XY{X: float64(i), Y: height})
		texts.Labels = append(texts.Labels, fmt.Sprintf("%.1f", height))
	}
	labels, err := plotter.NewLabels(texts)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign = draw.XCenter
		labels.TextStyle[i].Font.Variant = "Sans"
	}
	labels.Offset = vg.Point{X: offset, Y: vg.Points(2)}
	chart.Add(bars, labels)
	return nil
}

// wholeNumbers are the ticks of an axis of multiples.
type wholeNumbers struct{}

// Ticks marks every whole number.
func (wholeNumbers) Ticks(_, limit float64) (ticks []plot.Tick) {
	for i := range int(limit) + 1 {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: strconv.Itoa(i)})
	}
	return ticks
}

// swatch is a colour in the legend.
type swatch struct{ color color.Color }

// Thumbnail fills the room beside a name.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, c.ClipPolygonY([]vg.Point{
		{X: c.Min.X, Y: c.Min.Y}, {X: c.Min.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Min.Y},
	}))
}
