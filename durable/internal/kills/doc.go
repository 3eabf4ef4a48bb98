// Package kills tests package durable with failing machines. Processes are killed at any line or sleep through their
// leases. Database servers crash, fail over, and are restored to any earlier moment. Networks cut connections, stay
// silent and deliver requests late. Disks and witnesses fail. In each test, the service receives one start for each
// payment and payout at most, and each start has a row.
//
// Most of the tests start processes and servers, and run only with -kills, as in .ci/run:
//
//	.ci/postgres go -C durable test ./internal/kills -kills 25
package kills
