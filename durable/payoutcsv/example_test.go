package payoutcsv_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
)

func ExampleImport() {
	importFile := func(ctx context.Context, db *sql.DB, store *durable.Store, file io.ReadSeeker) error {
		total := paymentsvc.MustParseAmount("1250000.00")
		result, err := payoutcsv.Import(ctx, payoutcsv.ImportConfig{
			DB: db, Store: store, Name: "march.csv",
			Options: payoutcsv.Options{ExpectRows: 500, ExpectTotal: total}, // from the sender of the file
		}, file)
		if err != nil {
			return err
		}
		for _, row := range result.Report.Rejections {
			log.Print(row) // the line and the reason, without values of the row
		}
		return nil
	}
	var store *durable.Store // from durable.Open
	file := strings.NewReader("reference,amount,destination\nsalary-1,2500.00,+12025550100\n")
	fmt.Println(importFile(context.Background(), nil, store, file))
	// Output: payoutcsv: not the expected payouts: 1 payout, want 500; 0 rows are rejected
}

func ExampleCheck() {
	file := strings.NewReader("reference;amount;destination\nsalary-1;10,50;+12025550100\nsalary-1;10,5;+12025550100\n")
	report, err := payoutcsv.Check(file, payoutcsv.Options{DecimalComma: true})
	fmt.Println(report.Payouts, report.Total, report.Rejections, err)
	// Output: 1 10.50 [line 3: duplicate reference, already in line 2] <nil>
}
