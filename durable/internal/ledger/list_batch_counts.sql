-- The numbers of a batch's newest rows by state, review reason, hold and overdue age, each with the creation time of
-- the oldest row.
SELECT CASE WHEN c.token IS NULL THEN r.state ELSE 'starting' END, r.review,
	CASE WHEN r.state = 'created' AND c.token IS NULL
		AND r.generation < (SELECT generation FROM durable_control) THEN 1 ELSE 0 END,
	CASE WHEN r.state = 'pending' AND CAST($2 AS BIGINT) > 0 AND r.created_at <= {now} - $2
		AND NOT EXISTS (SELECT 1 FROM durable_decisions AS d WHERE d.user_data = r.user_data AND {reviewed within}$2)
		THEN 1 ELSE 0 END,
	COUNT(*), MIN(r.created_at), {now}
FROM (SELECT user_data, state, review, generation, created_at FROM durable_rows WHERE batch <> '' AND batch = $1
	ORDER BY created_at DESC, user_data DESC LIMIT $3) AS r LEFT JOIN durable_claims AS c ON c.user_data = r.user_data
GROUP BY 1, 2, 3, 4
