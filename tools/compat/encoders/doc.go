// Package encoders tests the SDK's values with loggers, encoders and databases. Loggers must not print secrets or
// payment data, except in the cases listed in SECURITY.md. Encoders and databases must keep an Amount and a request
// unchanged or return an error, except for the SQLite columns listed in the test. It is a separate module, so that the
// SDK does not require these libraries.
package encoders
