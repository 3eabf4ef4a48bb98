package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/paymentsvc/paymentsvc/durable"
)

const (
	// maxListed is the maximum number of user_data in a form. The form of the confirmation contains them again, within
	// maxForm.
	maxListed = 1000
	// maxSorted is the maximum number of rows that a page reads and sorts by line.
	maxSorted = 20_000
)

// listed returns the user_data of a list, each once. White space, commas and semicolons separate them. It rejects a
// list with an unknown user_data. bad does not repeat an entry, because a list may contain a card number by mistake.
func (p *page) listed(ctx context.Context, text string) (list []string, bad string, err error) {
	entries := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || c == ',' || c == ';' })
	place := map[string]int{}
	for i, entry := range entries {
		if _, twice := place[entry]; twice {
			continue
		}
		place[entry] = i + 1
		list = append(list, entry)
	}
	switch {
	case len(list) == 0:
		return nil, "Enter the user_data of the rows first.", nil
	case len(list) > maxListed:
		return nil, fmt.Sprintf("The list has %d user_data, want at most %d.", len(list), maxListed), nil
	}
	for row, err := range p.store.Rows(ctx, durable.Filter{UserData: list}) {
		if err != nil {
			return nil, "", err
		}
		delete(place, row.UserData)
	}
	if len(place) == 0 {
		return list, "", nil
	}
	first := len(entries)
	for _, n := range place {
		first = min(first, n)
	}
	return nil, fmt.Sprintf("%d entries of the list are not the user_data of a row. The first of them is entry %d.",
		len(place), first), nil
}

// byLine returns up to n rows that f selects and the function fits accepts, in the order of their files and lines. The
// list continues after the place of a row, "" for the beginning. more reports that other rows follow. If f selects more
// rows than maxSorted, byLine returns no rows, and complete is false.
func (p *page) byLine(
	ctx context.Context, f durable.Filter, fits func(durable.Row) bool, after string, n int,
) (rows []durable.Row, more, complete bool, err error) {
	read := 0
	for row, err := range p.store.Rows(ctx, f) {
		if err != nil {
			return nil, false, false, err
		}
		if read++; read > maxSorted {
			return nil, false, false, nil
		}
		if fits(row) && linePlace(row) > after {
			rows = append(rows, row)
		}
		if len(rows) > 2*n+1 {
			rows = firstByLine(rows, n+1)
		}
	}
	if rows = firstByLine(rows, n+1); len(rows) > n {
		return rows[:n], true, true, nil
	}
	return rows, false, true, nil
}

// firstByLine sorts rows by their places, and returns the first n.
func firstByLine(rows []durable.Row, n int) []durable.Row {
	slices.SortFunc(rows, func(a, b durable.Row) int { return cmp.Compare(linePlace(a), linePlace(b)) })
	return rows[:min(n, len(rows))]
}

// linePlace returns a text whose order is the order of files, lines and user_data. The number of digits makes the order
// of texts the order of lines.
func linePlace(row durable.Row) string {
	line := strconv.FormatInt(row.Line, 10)
	return fmt.Sprintf("%s %02d%s %s", row.Batch, len(line), line, row.UserData)
}
