package payouts

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// Make writes an example file of n payouts, always the same for an n, to public test card numbers and to telephone
// numbers that are kept for fiction.
func Make(w io.Writer, n int) error {
	cards := []string{"4111111111111111", "5555555555554444", "378282246310005", "6011111111111117"}
	buffered := bufio.NewWriter(w)
	rows := csv.NewWriter(buffered)
	if err := rows.Write([]string{columnReference, columnAmount, columnDestination}); err != nil {
		return err
	}
	for i := range n {
		destination := cards[i/2%len(cards)]
		if i%2 == 1 {
			destination = fmt.Sprintf("+1202555%04d", 100+i%100)
		}
		amount := strconv.Itoa(1+i*37%500) + fmt.Sprintf(".%02d", i*13%100)
		if err := rows.Write([]string{fmt.Sprintf("salary-%06d", i+1), amount, destination}); err != nil {
			return err
		}
	}
	rows.Flush()
	if err := rows.Error(); err != nil {
		return err
	}
	return buffered.Flush()
}
