package paymentsvctest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Kind is the kind of an order.
type Kind string

// The kinds of orders.
const (
	KindPayment Kind = "payment"
	KindPayout  Kind = "payout"
	KindForm    Kind = "form"
	KindInvoice Kind = "invoice"
)

// Order is a started payment, payout, form or invoice. fmt and encoding/json omit its destination and its four open
// objects.
type Order struct {
	// Number counts the orders from Config.LastOrder + 1.
	Number int
	// Kind is the kind of the order.
	Kind Kind
	// Type is the type of a payment, or "" for other kinds.
	Type paymentsvc.PaymentType
	// ProjectID is the project that started the order.
	ProjectID int64
	// OrderID is the identifier chosen by the server or [Server.Seed], and UserData the identifier chosen by the partner.
	OrderID  string
	UserData string
	// Amount is always set.
	Amount paymentsvc.Amount
	// Status is PENDING at first, or the status of [Server.Seed]. Numbers are the numbers of Status.
	Status  paymentsvc.StatusName
	Numbers Numbers
	// Refunded is the sum of the refunds in SUCCESS. It is not set before the first of these refunds.
	Refunded paymentsvc.Amount

	// Destination is the destination of a payout.
	Destination string `json:"-"`
	// CardData, Browser, Payer and Payee are the JSON of the request's open objects. A missing object is nil.
	CardData json.RawMessage `json:"-"`
	Browser  json.RawMessage `json:"-"`
	Payer    json.RawMessage `json:"-"`
	Payee    json.RawMessage `json:"-"`
}

// Format writes a line for messages of tests, under every verb.
func (o Order) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s %s of %s for user_data %q, %s", o.Kind, o.OrderID, o.Amount, o.UserData, o.Status)
}

// order is an Order in the books.
type order struct {
	Order
	restored bool // seeded without a destination
	unseen   int  // the number of further status calls that do not find the order, see LateCommit
}

func (o *order) payout() bool { return o.Kind == KindPayout }

// account is a project in the books.
type account struct {
	Project
	balance  *big.Rat // payout_balance
	pending  *big.Rat // the sum of the pending payments, forms and invoices
	decimals int      // the maximum number of decimals in an amount until now
}

// books are the orders and balances. They are not safe for concurrent use.
type books struct {
	numbers  map[paymentsvc.StatusName]Numbers
	orders   []*order
	last     int // the highest number of an order, or Config.LastOrder
	idSpace  int64
	byID     map[string]*order
	started  map[string][]*order // by user_data
	accounts map[int64]*account
}

func newBooks(c *Config) *books {
	b := &books{
		numbers:  c.Numbers,
		last:     c.LastOrder,
		idSpace:  c.IDSpace,
		byID:     map[string]*order{},
		started:  map[string][]*order{},
		accounts: map[int64]*account{},
	}
	for _, p := range c.Projects {
		b.accounts[p.ID] = &account{p, fraction(p.Balance), new(big.Rat), decimals(p.Balance)}
	}
	return b
}

// rejection is a problem with a request, its text, and the fault of the signature, if any.
type rejection struct {
	problem Problem
	message string
	fault   *SignatureFault
}

func reject(problem Problem, message string) *rejection {
	return &rejection{problem: problem, message: message}
}

// start enters a new pending order, or returns the existing order of a duplicate (only SameOrder), or a rejection.
func (b *books) start(o order, repeated Repeated) (*order, *rejection) {
	inScope := func(other *order) bool { return other.ProjectID == o.ProjectID && other.payout() == o.payout() }
	known := b.started[o.UserData]
	if i := slices.IndexFunc(known, inScope); i >= 0 && repeated != NewOrder {
		first := known[i]
		same := first.Kind == o.Kind && first.Type == o.Type && first.Amount.Equal(o.Amount) &&
			(first.restored || first.Destination == o.Destination)
		switch {
		case repeated == RejectRepeated:
			return nil, reject(ProblemRepeated, "user_data was used before")
		case !same:
			return nil, reject(ProblemRepeated, "user_data was used before, for an order that differs")
		}
		first.unseen = 0 // the response contains its order_id, so status calls must find it
		return first, nil
	}
	o.Number = b.last + 1
	o.OrderID = b.orderID(o.Number)
	moved, err := b.accounts[o.ProjectID].move(nil, &o)
	if err != nil {
		return nil, reject(ProblemRefused, "the balance would have more digits than an amount may have")
	}
	*b.accounts[o.ProjectID] = moved
	return b.enter(o), nil
}

func (b *books) seed(o Order) (*order, error) {
	o.Number = b.last + 1
	o.OrderID, o.Status = cmp.Or(o.OrderID, b.orderID(o.Number)), cmp.Or(o.Status, paymentsvc.StatusPending)
	var known bool
	o.Numbers, known = b.numbers[o.Status]
	account := b.accounts[o.ProjectID]
	switch {
	case !known:
		return nil, errNoNumbers
	case b.byID[o.OrderID] != nil:
		return nil, ErrOrderExists
	case account == nil:
		return nil, errNoProject
	case !slices.Contains([]Kind{KindPayment, KindPayout, KindForm, KindInvoice}, o.Kind):
		return nil, errors.New("no such kind of order")
	case !o.Amount.IsSet():
		return nil, errors.New("the order has no amount")
	case o.Amount.Sign() <= 0:
		return nil, errors.New("the amount is not more than 0")
	}
	entry := order{Order: o, restored: o.Destination == ""}
	moved, err := account.move(nil, &entry)
	if err != nil {
		return nil, err
	}
	*b.accounts[o.ProjectID] = moved
	return b.enter(entry), nil
}

// orderID returns an order_id of digits in the form of a UUID, so that a search for card numbers skips it.
func (b *books) orderID(number int) string {
	const low = 10_000
	return fmt.Sprintf("%08d-%04d-4000-8000-%012d", b.idSpace/low, b.idSpace%low, number)
}

// enter adds an order. The caller has added its amount to the account.
func (b *books) enter(o order) *order {
	entry := &o
	b.orders = append(b.orders, entry)
	b.byID[o.OrderID] = entry
	b.started[o.UserData] = append(b.started[o.UserData], entry)
	b.last = max(b.last, o.Number)
	return entry
}

// find returns the order of a status request, or nil. If both identifiers are set, both must match. With only a
// user_data, find returns the newest match. The first requests after LateCommit do not match the order.
func (b *books) find(project int64, payout bool, orderID, userData string) *order {
	fits := func(o *order) bool {
		if o.ProjectID != project || o.payout() != payout || userData != "" && o.UserData != userData {
			return false
		}
		if o.unseen > 0 {
			o.unseen--
			return false
		}
		return true
	}
	if orderID == "" {
		for _, o := range slices.Backward(b.started[userData]) {
			if fits(o) {
				return o
			}
		}
		return nil
	}
	o := b.byID[orderID]
	if o == nil || !fits(o) {
		return nil
	}
	return o
}

var (
	errNoOrder   = errors.New("no such order")
	errNoNumbers = errors.New("Config.Numbers has no numbers for this status")
	errFinal     = errors.New("the document specifies no status after a payment's SUCCESS and FAILURE")
)

// settle moves an order to a status, and updates the balances.
func (b *books) settle(orderID string, status paymentsvc.StatusName) (*order, error) {
	o := b.byID[orderID]
	if o == nil {
		return nil, errNoOrder
	}
	numbers, ok := b.numbers[status]
	switch {
	case !ok:
		return nil, errNoNumbers
	case !o.payout() && o.Status.Final() && status != o.Status:
		return nil, errFinal
	}
	after := *o
	after.Status, after.Numbers = status, numbers
	return o, b.change(o, &after)
}

// refund adds amount to the refunds of an order if status is SUCCESS, and otherwise only checks the refund.
func (b *books) refund(orderID string, amount paymentsvc.Amount, status paymentsvc.StatusName) (*order, error) {
	o := b.byID[orderID]
	if o == nil {
		return nil, errNoOrder
	}
	left := fraction(o.Amount)
	left.Sub(left, fraction(o.Refunded))
	_, known := b.numbers[status]
	switch {
	case o.payout():
		return nil, errors.New("a payout has no refund")
	case o.Status != paymentsvc.StatusSuccess:
		return nil, fmt.Errorf("the order is %s, and a refund needs SUCCESS", o.Status)
	case amount.Sign() <= 0:
		return nil, errors.New("the amount is not more than 0")
	case left.Cmp(fraction(amount)) < 0:
		unrefunded := left.FloatString(decimals(o.Amount, o.Refunded))
		return nil, fmt.Errorf("%s is more than the unrefunded %s", amount, unrefunded)
	case !known:
		return nil, errNoNumbers
	}
	if status != paymentsvc.StatusSuccess {
		return o, nil
	}
	after := *o
	var err error
	refunded := fraction(o.Refunded)
	after.Refunded, err = amountOf(refunded.Add(refunded, fraction(amount)), decimals(o.Refunded, amount))
	if err != nil {
		return nil, err
	}
	return o, b.change(o, &after)
}

// change gives the order o the state in after, updates its account, and ends the effect of LateCommit on the order.
func (b *books) change(o, after *order) error {
	moved, err := b.accounts[o.ProjectID].move(o, after)
	if err != nil {
		return err
	}
	*b.accounts[o.ProjectID] = moved
	*o = *after
	o.unseen = 0
	return nil
}

// balances returns the two balances of get_balance.
func (a *account) balances() (payout, expected paymentsvc.Amount, err error) {
	payout, err = amountOf(a.balance, a.decimals)
	if err != nil {
		return payout, expected, err
	}
	expected, err = amountOf(new(big.Rat).Add(a.balance, a.pending), a.decimals)
	return payout, expected, err
}

// move returns the account after a change of an order from the state before to the state after. before is nil for a new
// order. It returns an error for a balance with more digits than an Amount holds.
func (a *account) move(before, after *order) (account, error) {
	moved := account{a.Project, new(big.Rat).Set(a.balance), new(big.Rat).Set(a.pending), a.decimals}
	if before != nil {
		balance, pending := before.weight()
		moved.balance.Sub(moved.balance, balance)
		moved.pending.Sub(moved.pending, pending)
	}
	balance, pending := after.weight()
	moved.balance.Add(moved.balance, balance)
	moved.pending.Add(moved.pending, pending)
	moved.decimals = max(a.decimals, decimals(after.Amount, after.Refunded))
	const maxBits, maxDecimals = 128, 20 // 2^128 has 39 digits, so these balances need no check
	if max(moved.balance.Num().BitLen(), moved.pending.Num().BitLen()) < maxBits && moved.decimals <= maxDecimals {
		return moved, nil
	}
	_, _, err := moved.balances()
	return moved, err
}

// weight returns the order's amounts in payout_balance and in the pending balance.
func (o *order) weight() (balance, pending *big.Rat) {
	balance, pending = new(big.Rat), new(big.Rat)
	switch {
	case o.payout() && o.Status == paymentsvc.StatusFailure:
	case o.payout():
		balance.Neg(fraction(o.Amount))
	case o.Status == paymentsvc.StatusSuccess:
		balance.Sub(fraction(o.Amount), fraction(o.Refunded))
	case !o.Status.Final():
		pending = fraction(o.Amount)
	}
	return balance, pending
}

// fraction returns the exact value of an amount. An unset amount is 0.
func fraction(a paymentsvc.Amount) *big.Rat {
	value := new(big.Rat)
	if a.IsSet() {
		value.SetString(a.String()) // plain decimal text
	}
	return value
}

// decimals returns the maximum number of decimals in the amounts.
func decimals(amounts ...paymentsvc.Amount) (most int) {
	for _, a := range amounts {
		_, digits, _ := strings.Cut(a.String(), ".")
		most = max(most, len(digits))
	}
	return most
}

// amountOf returns a sum with the given number of decimals. If an Amount cannot hold these decimals, amountOf drops
// trailing zeros. It returns an error if an Amount cannot hold the remaining digits.
func amountOf(sum *big.Rat, decimals int) (paymentsvc.Amount, error) {
	text := sum.FloatString(decimals)
	a, err := paymentsvc.ParseAmount(text)
	if err != nil && decimals > 0 {
		return paymentsvc.ParseAmount(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
	return a, err
}
