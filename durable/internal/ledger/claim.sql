-- Takes due rows of a kind from the queue, for a round on SQLite and for a probe.
WITH due AS MATERIALIZED (
	SELECT q.kind, q.generation, q.due_at, q.user_data FROM durable_queue AS q
	WHERE q.kind = $1 AND q.generation = $2 AND q.due_at <= {now} AND (q.due_at, q.user_data) > ($3, $4) AND {unnotified}
	ORDER BY q.due_at, q.user_data LIMIT $5{skip})
DELETE FROM durable_queue WHERE (kind, generation, due_at, user_data) IN (SELECT * FROM due) RETURNING user_data;
-- Claims the rows of the list $1 for the token $2 and a lease.
INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
SELECT user_data, kind, $2, claims + 1, {now}, {now} + $3, created_at FROM durable_rows
WHERE state = 'created' AND user_data{in $1} ON CONFLICT DO NOTHING;
-- Reads the claimed rows.
SELECT r.user_data, r.kind, r.type, r.amount, r.destination, c.token, c.claims, c.claimed_at, r.due_at
FROM durable_claims AS c JOIN durable_rows AS r ON r.user_data = c.user_data
WHERE c.token = $2 AND c.user_data{in $1};
