package stranger_test

// The modules that the programs of the pages need beside this repository's.
var (
	sqliteModules = []string{
		"github.com/dustin/go-humanize", "github.com/mattn/go-isatty", "github.com/ncruces/go-strftime",
		"github.com/remyoudompheng/bigfft", "golang.org/x/sys", "modernc.org/libc", "modernc.org/mathutil",
		"modernc.org/memory", "modernc.org/sqlite",
	}
	pgxModules = []string{
		"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
		"github.com/jackc/puddle/v2", "golang.org/x/sync",
	}
	riverModules = []string{
		"github.com/lib/pq", "github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver",
		"github.com/riverqueue/river/riverdriver/riverdatabasesql", "github.com/riverqueue/river/riverdriver/riverpgxv5",
		"github.com/riverqueue/river/rivershared", "github.com/riverqueue/river/rivertype", "github.com/tidwall/gjson",
		"github.com/tidwall/match", "github.com/tidwall/pretty", "github.com/tidwall/sjson",
	}
)

// rootHarness is the program around the first block of README.md. The functions are the reader's own.
const rootHarness = `package main

import (
	"context"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func start(ctx context.Context, secret paymentsvc.Secret) error {
	// BLOCK
}

func redirectPayer(url, orderID string) error { return nil }
func retryLater(userData string) error        { return nil }
func reconcileLater(userData string) error    { return nil }
func showRejection(userData string) error     { return nil }

func main() {
	_ = start
	_ = paymentsvctest.AllFaults()
	fmt.Println(paymentsvc.InterfaceVersion)
}
`
