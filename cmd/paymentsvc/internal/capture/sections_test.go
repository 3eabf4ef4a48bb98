package capture

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadSections(t *testing.T) {
	const file = `@host = https://shop.example
@hook = {{host}}/hook

### a balance
GET {{host}}/balance

### a payment
# @name pay
POST {{hook}}?a=1
Signature: abab

` + body + `

> {% client.log("x") %}

### from a file
POST {{host}}/file HTTP/1.1
X-Other: c

< ./body.json
`
	open := func(name string) ([]byte, error) {
		if name != "./body.json" {
			return nil, os.ErrNotExist
		}
		return []byte(body), nil
	}
	m, err := Read([]byte(file), "a.http", Options{Open: open})
	require.NoError(t, err)
	require.Equal(t, body, string(m.Body))
	require.Equal(t, "POST https://shop.example/hook?a=1", m.Method+" "+m.URL.String())
	require.Equal(t, 10, m.Line("signature"))
	m, err = Read([]byte(file), "a.http", Options{Open: open, Entry: 3})
	require.NoError(t, err)
	require.Equal(t, body, string(m.Body))
	require.Equal(t, "/file", m.URL.Path)
	_, err = Read([]byte(file), "a.http", Options{Open: open, Signature: "none"})
	require.ErrorContains(t, err, "choose one with -entry: 1 GET https://shop.example/balance; 2 POST")
	_, err = Read([]byte("###\nPOST {{host}}/hook\nSignature: {{signature}}\n\n{}"), "a.http", Options{})
	require.ErrorContains(t, err, "a variable in {{...}}")
	_, err = Read([]byte("###\nPOST /hook\nSignature: abab\n\n<@ ./body.json\n"), "a.http", Options{})
	require.ErrorContains(t, err, "a.http:5:1: a body from a file with variables")
}
