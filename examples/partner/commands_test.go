package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// example is a file of n payouts, as make-payouts writes it.
func example(t *testing.T, n int) string {
	t.Helper()
	var file strings.Builder
	require.NoError(t, writePayouts(&file, n))
	return file.String()
}

func TestPayoutsSendsAFileOnce(t *testing.T) {
	lost := func(s *paymentsvctest.Server) {
		s.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(3), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	}
	rejected := func(s *paymentsvctest.Server) {
		s.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(3), paymentsvctest.Reject(400, "E1", "no"))
	}
	none := func(*paymentsvctest.Server) {}
	for _, c := range []struct {
		name    string
		faults  func(*paymentsvctest.Server)
		more    string // rows
		flags   []string
		code    int
		started int
		text    string
	}{
		{"all is well", none, "", nil, exitDone, 20, "20 pending"},
		{"as expected", none, "", []string{"-expect-rows", "20", "-expect-total", "4058.70"}, exitDone, 20, "20 pending"},
		{"another total", none, "", []string{"-expect-total", "4058.71"}, exitError, 0, "a total of 4058.70, want 4058.71"},
		{"a response is lost", lost, "", nil, exitReview, 20, "1 unknown"},
		{"a rejected payout", rejected, "", nil, exitReview, 19, "1 rejected"},
		{"a rejected row", none, "x,none,4111111111111111\n", nil, exitReview, 20, "line 22: amount: not a number"},
		{
			"a duplicate row", none, "salary-000001,1.00,4111111111111111\n", nil, exitReview, 20,
			"1 rejected or in conflict, and not paid: correct these rows, except duplicates",
		},
		{"another spelling", none, "", []string{"-decimal-comma"}, exitReview, 0, "20 rejected or in conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, database string) {
				service := startService(t)
				c.faults(service)
				args := append(serviceFlags(t, service.URL, database), c.flags...)
				args = append(args, "payouts", fileWith(t, example(t, 20)+c.more))
				for again := range 2 { // the same file again changes nothing
					out := command(t, c.code, args...)
					require.Contains(t, out, c.text)
					require.Len(t, service.Orders(), c.started)
					assert.Equal(t, again == 1 && c.code != exitError, strings.Contains(out, "was imported before"))
				}
			})
		})
	}
	assert.Contains(t, command(t, exitError, "payouts", filepath.Join(t.TempDir(), "none.csv")), "none.csv")
}

// The second file has the references of the first, and the exit status reports that its payouts are already known.
func TestPayoutsReportsKnownReferencesOfANewFile(t *testing.T) {
	service := startService(t)
	args := append(serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db")), "payouts")
	march := example(t, 2)
	for _, c := range []struct {
		file string
		code int
	}{{march, exitDone}, {march, exitDone}, {march + "\n", exitReview}, {march + "\n", exitReview}} {
		out := command(t, c.code, append(args, fileWith(t, c.file))...)
		assert.Equal(t, c.code == exitReview, strings.Contains(out, "2 known from another file and not paid again"), out)
	}
	assert.Len(t, service.Orders(), 2)
}

func TestPayoutsReportsPrunedPayouts(t *testing.T) {
	service := startService(t)
	args := serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))
	file := fileWith(t, "reference,amount,destination\na,1,x\n")
	command(t, exitDone, append(args, "payouts", file)...)
	p := open(t, args...)
	_, err := p.db.ExecContext(t.Context(), `UPDATE durable_orders SET state = 'succeeded', created_at = 0;
		UPDATE durable_rows SET state = 'succeeded', created_at = 0, updated_at = 0`)
	require.NoError(t, err)
	pruned, err := p.store.Prune(t.Context(), 24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, pruned)
	out := command(t, exitReview, append(args, "payouts", file)...)
	assert.Contains(t, out, "1 pruned from the database: their final states are no longer known")
}

// The database was restored after the import.
func TestPayoutsReportsMissingPayouts(t *testing.T) {
	p := open(t, serviceFlags(t, startService(t).URL, filepath.Join(t.TempDir(), "partner.db"))...)
	p.file = []byte(example(t, 2))
	sent, err := p.wait(t.Context())
	require.NoError(t, err)
	var out strings.Builder
	assert.Equal(t, exitReview, sent.print(&out, 0, 0))
	assert.Contains(t, out.String(), "2 missing from the database")
}

func TestSummaryCountsPayoutsInNeedOfReview(t *testing.T) {
	pending := durable.Row{State: durable.StatePending}
	flagged := durable.Row{State: durable.StatePending, ReviewReason: "another amount"}
	for _, c := range []struct {
		stored durable.Compared
		review int64
		states int
	}{
		{durable.Compared{Row: pending}, 0, 1},
		{durable.Compared{Row: flagged}, 1, 1},
		{durable.Compared{Row: flagged, Err: durable.ErrConflict}, 0, 0}, // Import has counted it
	} {
		s := summary{states: map[durable.State]int64{}}
		s.add(c.stored)
		assert.Equal(t, c.review, s.review)
		assert.Len(t, s.states, c.states)
	}
}

func TestPayoutsPausesWithoutFunds(t *testing.T) {
	service := startService(t)
	service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Reject(402, "no_funds", "no funds"))
	args := append(
		serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db")), "payouts", fileWith(t, example(t, 50)),
	)
	assert.Contains(t, command(t, exitReview, args...), "50 created")
	assert.Empty(t, service.Orders())
}

func TestCheckSendsNothing(t *testing.T) {
	service := startService(t)
	for _, c := range []struct {
		content string
		flags   []string
		code    int
		text    string
	}{
		{
			example(t, 20), nil, exitDone,
			"rows       20\npayouts    20\nrejected   0\nduplicates 0\ntotal      4058.70\nbalance    500000.00 XTS\n",
		},
		{example(t, 20) + "salary-000001,1,x\n", nil, exitError, "one reference with different amounts"},
		{example(t, 1) + strings.Repeat("x,none,y\n", 30), nil, exitReview, "line 32: amount"},
		{example(t, 1), nil, exitDone, "The database was not read"},
		{example(t, 20), []string{"-expect-total", "1"}, exitError, "a total of 4058.70, want 1"},
		{"reference,amount,destination\na,500000.01,x\n", nil, exitReview, "does not cover"},
		{ // the total has too many digits for an Amount
			"reference,amount,destination\na," + strings.Repeat("9", 64) + ",x\nb,1,x\n", nil, exitReview, "does not cover",
		},
		{
			"reference;amount;destination;note\na;1,50;x;y\n", []string{"-decimal-comma", "-ignore-columns", "note"}, exitDone,
			"total      1.50",
		},
		{
			"Beleg;Betrag;destination\na;2;4111111111111110\n", []string{"-columns", "reference=Beleg, amount=betrag"}, exitDone,
			"warning: all destinations with more than 15 digits have zeros",
		},
		{"reference,amount,destination\na,1,x\n", []string{"-columns", "Beleg"}, exitError, "renames an unknown column"},
		{"reference,amount,destination\na,1,x\nb,2,x\ntotal,3,x\n", nil, exitError, "remove line 4, or set ExpectRows"},
		{
			"reference,amount,destination\na,1.5,x\n", []string{"-scale", "0"}, exitReview,
			"1 decimal, want at most 0, see Scale (-scale)",
		},
		{"a,1," + card + "\n", nil, exitError, "no column names"},
	} {
		database := filepath.Join(t.TempDir(), "partner.db")
		flags := append(serviceFlags(t, service.URL, database), c.flags...)
		assert.Contains(t, command(t, c.code, append(flags, "check", fileWith(t, c.content))...), c.text)
		assert.NoFileExists(t, database)
	}
	assert.Empty(t, service.Orders())
	out := command(t, exitDone, "check", fileWith(t, example(t, 1)))
	assert.Contains(t, out, "The balance is that of the fake")
}

func TestResultsWritesOneFileOrAll(t *testing.T) {
	service := startService(t)
	flags := serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))
	first, second := fileWith(t, example(t, 2)), fileWith(t, "reference,amount,destination\nbonus-1,5,x\n")
	for _, file := range []string{first, second} {
		command(t, exitDone, append(flags, "payouts", file)...)
	}
	for file, want := range map[string][]string{
		first: {"salary-000001", "salary-000002"}, second: {"bonus-1"},
		fileWith(t, "reference,amount,destination\nbonus-1,5,x\nnew,1,x\n"): {"bonus-1", "new,3,1,not imported"},
		"": {"salary-000001", "salary-000002", "bonus-1"},
	} {
		args := append(slices.Clone(flags), "results")
		if file != "" {
			args = append(args, file)
		}
		out := command(t, exitDone, args...)
		_, table, _ := strings.Cut(out, "reference,line,") // after the log
		assert.Equal(t, 1+len(want), strings.Count(table, "\n"), out)
		for _, reference := range want {
			assert.Contains(t, out, "\n"+reference+",")
		}
	}
}

func TestHoldKeepsPayoutsBack(t *testing.T) {
	service := startService(t)
	flags := serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))
	command(t, exitError, append(flags, "hold", "restored a backup")...) // a wrong path
	open(t, flags...).Close()
	command(t, exitDone, append(flags, "hold", "restored a backup")...)
	out := command(t, exitReview, append(flags, "payouts", fileWith(t, example(t, 3)))...)
	assert.Contains(t, out, "3 created")
	assert.Contains(t, out, "3 held until an operator releases them on the operators' page. restored a backup")
	assert.Empty(t, service.Orders())
}

// The database of the second run is empty, like a backup from before the first.
func TestWitnessHoldsThePayoutsOfARestoredDatabase(t *testing.T) {
	service := startService(t)
	dir := t.TempDir()
	file, witness := fileWith(t, example(t, 3)), filepath.Join(dir, "mark")
	command(t, exitDone, append(serviceFlags(t, service.URL, filepath.Join(dir, "before.db")),
		"-witness", witness, "payouts", file)...)
	out := command(t, exitReview, append(serviceFlags(t, service.URL, filepath.Join(dir, "restored.db")),
		"-witness", witness, "payouts", file)...)
	assert.Contains(t, out, "3 held until")
	assert.Len(t, service.Orders(), 3)
}

// A summary fails at first, because a table is missing.
func TestPayoutsWaitsForTheDatabase(t *testing.T) {
	p := open(t, serviceFlags(t, startService(t).URL, filepath.Join(t.TempDir(), "partner.db"))...)
	p.file = []byte(example(t, 2))
	_, err := p.db.ExecContext(t.Context(), `ALTER TABLE durable_rows RENAME TO away`)
	require.NoError(t, err)
	ended := make(chan error)
	go func() {
		_, err := p.wait(t.Context())
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("it has not waited: %v", err)
	case <-time.After(3 * lookInterval):
	}
	_, err = p.db.ExecContext(t.Context(), `ALTER TABLE away RENAME TO durable_rows`)
	require.NoError(t, err)
	require.NoError(t, <-ended)
}
