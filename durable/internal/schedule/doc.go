// Package schedule decides when to claim rows, when to call the service, and when to record the completions. It contains
// no SQL.
//
// A slot is a call whose completion is not yet committed, or a row whose claim is unresolved. A round is one commit of the
// [Ledger] with completions and new claims. Completions and free slots wait for the round in flight and form the next
// round, so a busy database gets larger rounds. A call begins only after the commit of its claim.
package schedule
