package mask

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextHidesSecretsAndFields(t *testing.T) {
	for text, want := range map[string]string{
		`pan 4111 1111 1111 1111.`:                            `pan <card number>.`,
		`{"destination": "+7 \"9", "amount": 1}`:              `{"destination": "<destination>", "amount": 1}`,
		`{"destination":79990000000}`:                         `{"destination":"<destination>"}`,
		`5 4111111111111111, 1700000000.4111111111111111`:     `5 <card number>, 1700000000.<card number>`,
		`94111111111111111100`:                                `9<card number>0`,
		`a=1&destination=79990000000&x=2`:                     `a=1&destination=<destination>&x=2`,
		`{"destination":{"phone":"7","a":[1]},"b":2}`:         `{"destination":"<destination>","b":2}`,
		`{"a":{"card_data":{"cvv":"123","exp":"1}2"}},"b":2}`: `{"a":{"card_data":"<card data>"},"b":2}`,
		`{"payer":null,"payee":7}`:                            `{"payer":"<payer>","payee":"<payee>"}`,
		`card_data[cvv]=123&payer.name=Ann|destination: 7 b`: `card_data[cvv]=<card data>&` +
			`payer.name=<payer>|destination: <destination> b`,
		`"{\"card_data\":{\"cvv\":\"123\"},\"b\":1}"`:                `"{\"card_data\":"<card data>",\"b\":1}"`,
		`{"card_data":{"cvv":"12`:                                    `{"card_data":"<card data>"`,
		`key s3cret, 1700000000 12345678901234`:                      `key <secret>, 1700000000 12345678901234`,
		`o 00000000-0000-4000-8000-000000000000 4111-1111-1111-1111`: `o 00000000-0000-4000-8000-000000000000 <card number>`,
	} {
		assert.Equal(t, want, Text(text, "s3cret"), text)
	}
	for _, text := range []string{`s3/c&<t`, `s3\/c&<t`, `s3/c\u0026\u003ct`, "s3/c&amp;&lt;t", "s3%2Fc%26%3Ct"} {
		assert.Equal(t, "<secret>", Text(text, "s3/c&<t"))
	}
}

func TestAddressesHidesUsersAndQueries(t *testing.T) {
	assert.Equal(t, "http://...@a/b?..., http://c?..., 5", Addresses("http://u:p@a/b?token=1, http://c?x=1&y, 5"))
	assert.Equal(t, "http://c?...", Query("http://c?x=1"))
	assert.Equal(t, "http://c", Query("http://c"))
}
