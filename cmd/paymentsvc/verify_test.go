package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

const testBody = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
	`"status_code":20,"amount":10.50}`

func TestVerifyNamesTheReason(t *testing.T) {
	good, long := signed(t, testBody, "1700000000"), strings.Repeat("x", 50)
	for _, test := range []struct {
		name, message, args string
		code                int
		reason, line        string
	}{
		{"valid", good, "", 0, "", "valid  payment.status_changed SUCCESS 10.50 o-1, signed 0s ago\n"},
		{"old", signed(t, testBody, "1699999000"), "", 1, "timestamp_too_old",
			"wrong  timestamp too old: 16m40s, tolerance 5m0s\n"},
		{"old, any age", signed(t, testBody, "1600000000"), "-tolerance any", 0, "", "o-1, signed 1157 days ago\n"},
		{"ahead", signed(t, testBody, "1700001000"), "", 1, "timestamp_too_new", "wrong  timestamp too new"},
		{"spaces", strings.Replace(good, `,"status"`, `, "status"`, 1), "", 1, "signature_mismatch",
			"wrong  signed hex(timestamp '.' body-compact), want hex(timestamp '.' body): " +
				"the body changed after signing, or the sender signed another form of it\n" +
				"       signed    'r_id\":\"o-#\",\"status\":#,\"'\n       expected  'r_id\":\"o-#\", \"status\":#,'  first " +
				"difference at byte 62\n"},
		{"another key", good, "-secret-file other.txt", 1, "signature_mismatch",
			" bytes): the key is wrong, the message was altered, or the scheme is different, want hex(timestamp '.' body)\n"},
		{"after a rotation", good, "-secret-file other.txt -old-secret-file key.txt", 0, "",
			"o-1, with the old secret, signed"},
		{"two signatures", strings.Replace(good, "Signature", "signature: a\r\nSignature", 1), "", 1, "malformed_header",
			"wrong  malformed header: signature: 2 values, want exactly 1\n"},
		{"no timestamp", strings.Replace(good, "Timestamp", "X-Time", 1), "", 1, "missing_header",
			"wrong  missing header: timestamp\n"},
		{"another name", strings.Replace(good, "Timestamp", "X-Time", 1), "-timestamp-header x-time", 0, "", "valid"},
		{"no notification", signed(t, `{"event":"x"}`, "1700000000"), "", 1, "malformed_notification",
			"wrong  malformed notification: order_id"},
		{"a request", signed(t, `{"partner_id":1}`, "1700000000"), "", 0, "", "valid  POST /hook, 16 bytes, signed 0s ago\n"},
		{"a card number in the path", strings.Replace(good, "/hook", "/4111111111111111", 1), "-kind request", 0, "",
			"valid  POST /<card number>, "},
		{"a long event", signed(t, strings.Replace(testBody, "payment", long+" 4111111111111111", 1), "1700000000"),
			"", 0, "", long + " <card number>... "},
		{"a request by flag", good, "-kind request", 0, "", "valid  POST /hook"},
		{"a request signed otherwise", good, "-kind request -scheme-file kinds.txt", 1, "signature_mismatch",
			"wrong  signed [notification] in place of request, want "},
		{"a scheme that does not fit", good, "-scheme-file field.txt", 1, "scheme", "wrong  canonical string: "},
		{"escapes", signed(t, strings.Replace(testBody, "o-1", `\u001b[2J4111111111111111`, 1), "1700000000"), "", 0, "",
			`SUCCESS 10.50 \x1b[2J<card number>, signed`},
	} {
		d := newDesk(t)
		d.write("other.txt", "a foreign key")
		d.write("kinds.txt", "request hex(body), notification hex(timestamp '.' body)\n")
		d.write("field.txt", "hex(field('gone'))")
		d.write("m.http", test.message)
		args := append(strings.Fields(test.args), "verify", "m.http")
		assert.Equal(t, test.code, d.run(args...), "%s: %s", test.name, &d.stderr)
		assert.Contains(t, d.stdout.String(), test.line, test.name)
		assert.Equal(t, test.code, d.run(append(args, "-json")...), test.name)
		object := d.object("verified")
		assert.Equal(t, test.reason, object["reason"], test.name)
		assert.Equal(t, test.code == 0, object["valid"], test.name)
		assert.Len(t, object, 16, "all fields are always there")
		assert.Equal(t, strings.HasPrefix(test.reason, "timestamp_too"),
			strings.Contains(d.stderr.String(), "the signature is correct; -tolerance any"), test.name)
	}
}

func TestVerifyNotesASchemeSeenInRequestsOnly(t *testing.T) {
	const note = "the scheme was seen in requests only, and notifications may have another scheme"
	d := newDesk(t)
	d.write("notification.http", signed(t, testBody, "1700000000"))
	d.write("wrong.http", strings.Replace(signed(t, testBody, "1700000000"), "o-1", "o-2", 1))
	for scheme, noted := range map[string]bool{
		testScheme: false, testScheme + ", seen in requests": true, testScheme + ", seen in notifications": false,
	} {
		assert.Zero(t, d.run("verify", "notification.http", "-scheme", scheme))
		assert.Equal(t, noted, strings.Contains(d.stderr.String(), note), scheme)
		assert.Equal(t, cli.ExitNo, d.run("verify", "wrong.http", "-scheme", scheme))
		assert.NotContains(t, d.stdout.String(), "seen in", "the clause is no part of a canonical string")
	}
	assert.Zero(t, d.run("verify", "notification.http", "-kind", "request", "-scheme", testScheme+", seen in requests"))
	assert.NotContains(t, d.stderr.String(), note)
}

func TestVerifyShowsNoFormOfTheSecret(t *testing.T) {
	secret := paymentsvc.Secret("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY=")
	for _, scheme := range []string{
		"hex(body secret), key base64", "hex(body secret body)", "hex(secret body hex(sha256(secret))), key base64",
	} {
		d := newDesk(t)
		d.write("key.txt", string(secret))
		d.write("m.http", "POST / HTTP/1.1\nTimestamp: 1700000000\nSignature: "+
			signatureOf(t, scheme, secret, `{"a":1}`, "1700000000")+"\n\n{\"a\": 1}")
		assert.Equal(t, cli.ExitNo, d.run("verify", "m.http", "-scheme", scheme), "%s", &d.stderr)
		assert.Contains(t, d.stdout.String(), "first difference at byte ", scheme)
		assert.NotRegexp(t, "QUJD|ABCD|VoxM|[0-9a-f]{6}", d.stdout.String(), scheme)
	}
	d := newDesk(t)
	d.write("key.txt", string(secret))
	const path = "/QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY%3d"
	d.write("m.http", "POST /hook"+path+" HTTP/1.1\nTimestamp: 1700000000\nSignature: "+
		signatureOf(t, `hex("`+path+`" body)`, secret, "{}", "1700000000")+"\n\n{}")
	assert.Equal(t, cli.ExitNo, d.run("verify", "m.http", "-scheme", "hex(path body)"), "%s", &d.stderr)
	assert.Contains(t, d.stdout.String(), "signed    '/********{}'", "a secret longer than the excerpt")
}

func TestVerifyShowsNoDestination(t *testing.T) {
	const body, timestamp = `{"amount":1,"destination":"ann@bank","user_data":"u"}`, "1700000000"
	d := newDesk(t)
	d.write("m.http", "POST /init_payout HTTP/1.1\nTimestamp: "+timestamp+"\nSignature: "+
		signatureOf(t, "hex('GET|' fields('|'))", testKey, body, timestamp)+"\n\n"+body)
	assert.Equal(t, cli.ExitNo, d.run("verify", "m.http", "-scheme", "hex(method '|' fields('|'))"), "%s", &d.stderr)
	assert.Contains(t, d.stdout.String(), "expected  'POST|#|<dest'  first difference at byte 0")
	assert.NotContains(t, d.stdout.String(), "ann")
}

func TestVerifyNotesABodyThatAWebhookRejects(t *testing.T) {
	for size, noted := range map[int]bool{64 << 10: false, 64<<10 + 1: true} {
		d := newDesk(t)
		d.write("m.http", signed(t, strings.Repeat("x", size), "1700000000"))
		d.run("verify", "m.http")
		assert.Equal(t, noted, strings.Contains(d.stderr.String(), "more than 64 KiB"))
	}
}

func TestVerifyUsageErrors(t *testing.T) {
	d := newDesk(t)
	d.write("m.http", "not http\n")
	for args, want := range map[string]string{
		"verify":           "want FILE, or - for standard input",
		"verify gone.http": "paymentsvc verify: gone.http: no such file",
		"verify m.http":    "paymentsvc verify: m.http:1:",
		"verify -":         "paymentsvc verify: standard input:1:",
	} {
		d.rejects(want, strings.Fields(args)...)
		assert.Equal(t, cli.ExitUsage, d.run(append(strings.Fields(args), "-json")...), args)
	}
}
