// Package schedule decides when to claim rows, to call the service and to record the completions. It contains no SQL.
//
// A call occupies a slot from its claim to the commit of its completion. An unresolved claim keeps its slot. A round is
// one commit of the [Ledger] with completions and new claims. Completions and free slots wait for the round in flight
// and form the next round, so a busy database gets larger rounds. Completions of short calls also wait for each other,
// at most for the duration of a round. A call begins only after the commit of its claim.
package schedule
