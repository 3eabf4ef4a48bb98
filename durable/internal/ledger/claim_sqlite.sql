-- Takes the due rows of a kind from the queue on SQLite.
DELETE FROM durable_queue WHERE (kind, generation, due_at, user_data) IN (
	SELECT q.kind, q.generation, q.due_at, q.user_data FROM durable_queue AS q
	WHERE q.kind = ?1 AND q.generation = ?2 AND q.due_at <= {now} AND (q.due_at, q.user_data) > (?3, ?4) AND {unnotified}
	ORDER BY q.due_at, q.user_data LIMIT ?5)
RETURNING user_data, due_at;
-- Claims them: ?1 is the list of their user_data.
INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
SELECT user_data, kind, ?2, claims + 1, {now}, {now} + ?3, created_at FROM durable_rows
WHERE state = 'created' AND user_data IN (SELECT value FROM json_each(?1))
ON CONFLICT DO NOTHING RETURNING user_data, claimed_at;
SELECT user_data, kind, type, amount, destination, claims + 1 FROM durable_rows
WHERE user_data IN (SELECT value FROM json_each(?1));
