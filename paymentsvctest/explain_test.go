package paymentsvctest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestExplainSignatureOfANotification(t *testing.T) {
	const key = "the key"
	scheme, _, err := canonical.ParseSchemeWith(`hex(timestamp secret body)`, key)
	require.NoError(t, err)
	m := &paymentsvc.Message{Kind: paymentsvc.KindNotification, Method: "POST", Timestamp: "1700000000", Body: []byte(`{"a": 1}`)}
	compact := *m
	compact.Body = []byte(`{"a":1}`)
	signature, err := scheme.Signature(key, &compact)
	require.NoError(t, err)

	fault := paymentsvctest.ExplainSignature(scheme, paymentsvctest.Project{Secret: key}, m, signature)
	assert.Equal(t, "signed over the body without white space", fault.Reason)
	require.NotNil(t, fault.Difference)
	assert.NotContains(t, fault.String(), key)
	fault = paymentsvctest.ExplainSignature(scheme, paymentsvctest.Project{Secret: key}, m, "no signature")
	assert.Equal(t, "none of the usual mistakes makes this signature (the canonical string has 25 bytes): the key is another one, the message was altered, or the scheme is another", fault.Reason)
}
