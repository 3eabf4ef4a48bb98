package store

// State is where an order or a payout stands.
type State string

// The states, and what may follow each.
const (
	// StateCreated is stored, and certainly not at the service: it is to be started when due. StateStarting follows.
	StateCreated State = "created"
	// StateStarting is claimed: a process is about to start it, or has died meanwhile. Any state may follow.
	StateStarting State = "starting"
	// StateUnknown may be at the service. It is never started again before somebody has found out.
	StateUnknown State = "unknown"
	// StatePending is at the service, which has given it an order_id. A notification ends it.
	StatePending State = "pending"
	// StateSucceeded, StateFailed and StateRejected are final: no later notification changes them.
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	// StateRejected is refused by the service: nothing was started.
	StateRejected State = "rejected"
)

// Final says whether nothing follows s.
func (s State) Final() bool { return s == StateSucceeded || s == StateFailed || s == StateRejected }
