package paymentsvctest

import (
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// ExplainSignature finds out how a wrong signature of m was made, as [Server.SignatureFaults] does for the requests of a
// server: which of the usual mistakes, with the secrets of p, makes it. m may be a notification. The scheme is required;
// Endpoint and Number of the result are zero, and its texts show no secret.
func ExplainSignature(scheme paymentsvc.Scheme, p Project, m *paymentsvc.Message, signature string) SignatureFault {
	s := &Server{cfg: &Config{Scheme: scheme, Projects: []Project{p}}, watched: &recorder{}}
	fault := *s.diagnose(p, m, signature)
	fault.Reason, _, _ = strings.Cut(fault.Reason, "; Server.Watch") // there is no server to ask
	return fault
}
