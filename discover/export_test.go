package discover

import (
	"context"
	"slices"
	"strings"
)

// FindKnowing is Find with a shortcut: it tries only the texts that occur in one of the signed texts. It finds what
// Find finds, in the same stages and under the same limits, without the compositions that cannot fit.
func FindKnowing(ctx context.Context, samples []Sample, o Options, signed ...string) (Result, error) {
	f, err := newFinder(ctx, samples, o)
	if err != nil {
		return Result{}, err
	}
	for _, stages := range f.stages {
		for _, st := range stages {
			for i := range st.groups {
				st.groups[i].keep(func(text string) bool {
					return slices.ContainsFunc(signed, func(s string) bool { return strings.Contains(s, text) })
				})
			}
		}
	}
	result := f.find(ctx)
	if len(result.Matches) == 0 {
		return result, ErrNoMatch
	}
	return result, nil
}

// keep removes texts and their pieces.
func (g *stageGroup) keep(wanted func(text string) bool) {
	var texts []string
	var pieces []*piece
	var odd []bool
	for i, text := range g.texts {
		if wanted(text) {
			texts, pieces, odd = append(texts, text), append(pieces, g.pieces[i]), append(odd, g.isOdd(i))
		}
	}
	g.texts, g.pieces, g.odd = texts, pieces, odd
}
