package mask

import (
	"strings"
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
		`12345678-4111111111111111-1-1-123456`:                       `12345678-<card number>-1-1-123456`,
	} {
		assert.Equal(t, want, Text(text, Pattern("s3cret")), text)
	}
}

func TestTextHidesSecretsWithEscapes(t *testing.T) {
	const key = "s3/c&<t+=\" \né😀\xff"
	for _, text := range []string{
		key,
		`s3\/c\u0026\u003ct\u002B\u003d\" \n\u00e9\uD83D\uDE00\ufffd`,
		`s3\\/c\\u0026\\u003ct+=\\\" \\né😀�`,
		"s3%2Fc%26%3Ct%2B%3D%22+%0A%C3%A9%F0%9F%98%80%FF",
		"s3/c%26%3ct%2b%3d%22%20%0a%c3%a9%f0%9f%98%80%ff",
		"%73%33%252Fc%2526%253Ct%252B%253D%2522%2520%250A%25C3%25A9%25F0%259F%2598%2580%25FF",
		"s3/c&amp;&lt;t+&#x3D;&#34; \n&eacute;&#128512;\xff",
		"s3&#x2F;c&#038;&#x3c;t&plus;&#61;&quot;&nbsp;&#10;&#xE9;&#x1f600;&#xfffd;",
		"s3/c&amp;amp;&amp;lt;t+&amp;#x3D;&amp;quot; \né😀�",
		`s3/c\x26\x3Ct\x2b\x3d\x22\x20\x0a\u{e9}\xf0\x9f\x98\x80\xff`,
	} {
		assert.Equal(t, "<secret>", Text(text, Pattern(key)), text)
	}
	assert.Equal(t, "S3/c s3 &lt;", Text("S3/c s3 &lt;", Pattern("s3/c"), Pattern("")), "other texts")
	long := strings.Repeat("é", maxPatternBytes)
	assert.Equal(t, "a <secret>", Text("a "+long+"\n", Pattern(long)), "the end of a long secret")
}

func TestAddressesHidesUsersAndQueries(t *testing.T) {
	assert.Equal(t, "http://...@a/b?..., http://c?..., 5", Addresses("http://u:p@a/b?token=1, http://c?x=1&y, 5"))
	assert.Equal(t, "http://c?...", Query("http://c?x=1"))
	assert.Equal(t, "http://c", Query("http://c"))
}
