// Package kills tests package durable against what the machines do: processes killed at any line, database servers
// stopped, failed over and restored, networks cut or silent, a full disk, and a process that sleeps through its lease.
// Whatever happens, the service is asked to start each payment and payout once, and every start has its row.
//
// Most of the tests start processes and servers, and run only with -kills, which .ci/run passes:
//
//	.ci/postgres go -C durable test ./internal/kills -kills 25
package kills
