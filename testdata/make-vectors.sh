#!/bin/sh
# Makes the vectors of requests and notifications with openssl, without this module:
#
#	sh testdata/make-vectors.sh >testdata/vectors.json
#
# Each vector has the shell command of its signature. Secrets, canonical strings and encodings are the choice of these
# vectors, because the interface document does not specify them (section 5).
set -eu

# field NAME VALUE prints a member for json to write.
field() { printf '%s\037%s\036' "$1" "$2"; }

# json reads members, ten a vector, and writes the list. Of what JSON wants escaped, values hold quotes, backslashes
# and line ends. It is one pass over everything, since a few processes for each value would take seconds.
json() {
	sed 's/\\/\\\\/g; s/"/\\"/g' | awk '
		BEGIN { RS = "\036"; FS = "\037"; printf "[" }
		NF == 2 {
			gsub(/\n/, "\\n", $2)
			printf "%s    \"%s\": \"%s\"", n % 10 ? ",\n" : n ? "\n  },\n  {\n" : "\n  {\n", $1, $2
			n++
		}
		END { printf "\n  }\n]\n" }
	'
}

# encoder ENCODING prints what stands behind openssl dgst to encode the HMAC.
encoder() {
	case $1 in
	hex) printf '%s' "-r | cut -d ' ' -f 1" ;;
	hex-upper) printf '%s' "-r | cut -d ' ' -f 1 | tr a-f A-F" ;;
	base64) printf '%s' "-binary | openssl base64 -A" ;;
	base64-raw) printf '%s' "-binary | openssl base64 -A | tr -d =" ;;
	base64url) printf '%s' "-binary | openssl base64 -A | tr /+ _-" ;;
	base64url-raw) printf '%s' "-binary | openssl base64 -A | tr /+ _- | tr -d =" ;;
	esac
}

# canonical COMPOSITION TARGET TIMESTAMP BODY prints the canonical string.
canonical() {
	case $1 in
	'timestamp\nbody') printf '%s\n%s' "$3" "$4" ;;
	'timestamp.body') printf '%s.%s' "$3" "$4" ;;
	'body') printf '%s' "$4" ;;
	'method\npath\ntimestamp\nbody') printf 'POST\n%s\n%s\n%s' "$2" "$3" "$4" ;;
	'method path timestamp sha256(body)') printf 'POST %s %s %s' "$2" "$3" "$(printf '%s' "$4" | openssl dgst -sha256 -r | cut -d ' ' -f 1)" ;;
	esac
}

# vector NAME SECRET COMPOSITION ENCODING TARGET TIMESTAMP BODY prints one vector. SECRET holds no single quote, and
# neither does BODY, so that both can be quoted with them.
vector() {
	text=$(canonical "$3" "$5" "$6" "$7")
	command="printf '%s' '$text' | openssl dgst -sha256 -hmac '$2' $(encoder "$4")"
	field name "$1"
	field secret "$2"
	field composition "$3"
	field encoding "$4"
	field path "$5"
	field timestamp "$6"
	field body "$7"
	field canonical "$text"
	field command "$command"
	field signature "$(eval "$command")"
}

key='project-secret-key-1'
block='0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef' # 64 bytes, one block of SHA-256
payment='{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}'
card='{"partner_id":11,"project_id":22,"amount":1000000.00,"user_data":"order-2","card_data":{"number":"4111111111111111"},"payer":{"name":"Łukasz & \"Søn\" <a@b.example>"}}'
success='{"event":"payment.status_changed","order_id":"6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11","status":2,"status_description":"SUCCESS","status_code":20,"amount":10.50,"user_data":"order-1"}'
payout='{"event":"payout.status_changed","order_id":"po-1","status":3,"status_description":"FAILURE","status_code":-31,"amount":1e2,"user_data":null}'
refund='{"event":"refund.status_changed","order_id":"rf-1","status":1,"status_description":"IN_REVIEW","status_code":0,"amount":"0.30000000000000004","reason":{"code":7,"text":"C:\\naïve\\п"}}'

requests() {
	vector 'two parts in hex' "$key" 'timestamp\nbody' hex /init_payment/card 1700000000 "$payment"
	vector 'four parts in hex' "$key" 'method\npath\ntimestamp\nbody' hex /base/v1/init_payment/card 1700000000 "$payment"
	vector 'four parts in upper-case hex' "$key" 'method\npath\ntimestamp\nbody' hex-upper /base/v1/init_payment/card 1700000000 "$payment"
	vector 'four parts in base64' "$key" 'method\npath\ntimestamp\nbody' base64 /base/v1/init_payment/card 1700000000 "$payment"
	vector 'base64 with plus and slash' "$key" 'timestamp.body' base64 /get_balance 1700000002 '{"partner_id":11,"project_id":22}'
	vector 'base64 without padding' "$key" 'timestamp.body' base64-raw /get_balance 1700000002 '{"partner_id":11,"project_id":22}'
	vector 'base64 for URLs' "$key" 'timestamp.body' base64url /get_balance 1700000002 '{"partner_id":11,"project_id":22}'
	vector 'base64 for URLs without padding' "$key" 'timestamp.body' base64url-raw /get_balance 1700000002 '{"partner_id":11,"project_id":22}'
	vector 'a body that is hashed first' "$key" 'method path timestamp sha256(body)' hex /init_payout 1700000002 '{"partner_id":11,"project_id":22,"amount":99.90,"destination":"4111111111111111","user_data":"payout-1"}'
	vector 'text beyond ASCII and characters that HTML would escape' "$key" 'timestamp\nbody' base64 /init_payment/sbp 1700000003 "$card"
	vector 'a path with an escape' "$key" 'method\npath\ntimestamp\nbody' hex /a%2Fb/status_payment 1700000004 '{"order_id":"o-1","partner_id":11,"project_id":22}'
	vector 'a secret of one byte' k 'timestamp\nbody' hex /init_form 1700000005 "$payment"
	vector 'a secret of one block' "$block" 'timestamp\nbody' hex /init_form 1700000005 "$payment"
	vector 'a secret longer than one block' "$block$block$key" 'timestamp\nbody' hex /init_form 1700000005 "$payment"
	vector 'a secret beyond ASCII with spaces' ' ключ № 1 ' 'timestamp\nbody' hex /init_form 1700000005 "$payment"
	vector 'the body alone' "$key" body hex /init_invoice 1700000006 "$payment"
	vector 'the first second' "$key" 'timestamp\nbody' hex /get_balance 0 '{"partner_id":11,"project_id":22}'
}

notifications() {
	for encoding in hex base64url; do
		vector "a payment that succeeded, in $encoding" "$key" 'timestamp\nbody' $encoding /notifications 1700000000 "$success"
	done
	for encoding in base64 base64url-raw; do
		vector "a payout that failed, in $encoding" "$key" 'timestamp.body' $encoding /notifications 1700000060 "$payout"
	done
	for encoding in hex-upper base64-raw; do
		vector "a refund with another status and field, in $encoding" "$key" 'timestamp\nbody' $encoding /notifications 1700000120 "$refund"
	done
	vector 'the address in it' "$key" 'method\npath\ntimestamp\nbody' hex /hooks/notifications 1700000000 "$success"
	vector 'a body that is hashed first' "$key" 'method path timestamp sha256(body)' base64 /hooks/notifications 1700000000 "$success"
	vector 'a secret longer than one block' "$block$block$key" 'timestamp\nbody' hex /notifications 1700000000 "$success"
	vector 'white space around the members' "$key" 'timestamp\nbody' hex /notifications 1700000000 "{
  \"event\": \"payment.status_changed\", \"order_id\": \"o-1\",
  \"status\": 1, \"status_description\": \"PENDING\", \"status_code\": 10, \"amount\": 7
}"
}

{
	requests
	notifications
} | json
