-- A round on PostgreSQL, in one statement. A row that cannot go the fast way is left out by the WHERE of "outcomes".
-- The limits are in the text, since PostgreSQL plans with them. It keeps a plan that it may have made when the table was
-- empty and all indexes cost the same, so each scan is written to fit one index only:
--   state || '' and order_id || '' fit no index, so that the key or the ctid finds the rows of a round;
--   an OR of two equal halves implies the predicate of a partial index, but is no condition for the others;
--   order_id >= ... ORDER BY order_id needs the order of the unique index, and received_at that of its own;
--   LATERAL with FOR UPDATE and a subquery with LIMIT look up one row at a time;
--   one = 1 and s = 0 OR s = 1, which always hold, let PostgreSQL expect few rows, which it finds by their ctids.
-- While no payment is due, the part that claims payments is cut out.
WITH control AS MATERIALIZED (
	SELECT generation, now, run_length, CASE WHEN {here} <> CAST($9 AS TEXT) THEN 8
		WHEN CAST($3 AS TEXT) <> '' AND NOT EXISTS (SELECT 1 FROM durable_rows
			WHERE user_data = $3 AND (token = $4 OR claims > $5)) THEN 4
		WHEN paused = 1 OR pause_until > now THEN 1 WHEN pause_until > 0 THEN 2 ELSE 0 END AS flags,
		(SELECT received_at FROM durable_notifications WHERE matched = 0 ORDER BY received_at LIMIT 1) IS NULL AS quiet
	FROM durable_control CROSS JOIN (SELECT {now} AS now OFFSET 0) AS clock WHERE one = 1),
heard AS MATERIALIZED (
	SELECT order_id FROM durable_notifications WHERE matched = 0 AND order_id = ANY (CAST($7 AS TEXT)::TEXT[])),
outcomes AS MATERIALIZED (
	SELECT r.at, c.now, o.t, o.o, o.r, o.s
	FROM control AS c
	CROSS JOIN (SELECT * FROM json_to_recordset(CAST($1 AS TEXT)::JSON) AS o(u TEXT, t TEXT, o TEXT, r TEXT, s BIGINT)
		LIMIT {outcomes}) AS o
	CROSS JOIN LATERAL (SELECT ctid AS at FROM durable_rows AS r
		WHERE user_data = o.u AND state || '' = 'starting' AND token = o.t AND order_id || '' IS NULL AND order_id_taken = 0
			AND COALESCE((SELECT x.order_id FROM durable_rows AS x WHERE x.kind = r.kind AND x.order_id >= o.o
				ORDER BY x.order_id LIMIT 1), '') <> o.o
		FOR UPDATE OF r SKIP LOCKED) AS r
	WHERE (o.s = 0 OR o.s = 1) AND o.o NOT IN (SELECT order_id FROM heard)),
recorded AS (
	UPDATE durable_rows AS r SET state = 'pending', order_id = o.o, redirect_url = o.r, refusal = '', attention = '',
		updated_at = o.now, version = version + 1
	FROM outcomes AS o WHERE r.ctid = o.at AND r.token = o.t AND r.state || '' = 'starting'
	RETURNING r.user_data, o.s),
due AS MATERIALIZED (
	SELECT user_data, at, now FROM control AS c CROSS JOIN LATERAL (
		{payments}SELECT * FROM (SELECT user_data, ctid AS at FROM durable_rows
			WHERE c.flags = 0 AND due_at <= c.now
				AND (kind = 'payment' AND state = 'created' OR 'payment' = kind AND 'created' = state)
				AND (c.quiet OR {unheard})
			ORDER BY due_at, user_data LIMIT {most} FOR UPDATE SKIP LOCKED) AS payments
		UNION ALL {payouts}SELECT * FROM (SELECT user_data, ctid AS at FROM durable_rows
			WHERE c.flags = 0 AND due_at <= c.now
				AND (kind = 'payout' AND state = 'created' OR 'payout' = kind AND 'created' = state)
				AND generation = c.generation AND (c.quiet OR {unheard})
			ORDER BY due_at, user_data LIMIT {most} FOR UPDATE SKIP LOCKED) AS payouts) AS d
	LIMIT LEAST({most}, CAST($8 AS BIGINT) + (SELECT COALESCE(SUM(s), 0) FROM recorded))),
claimed AS (
	UPDATE durable_rows AS r SET state = 'starting', token = $2, claims = claims + 1, claimed_at = due.now,
		due_at = due.now + $6, refusal = '', updated_at = due.now, version = version + 1
	FROM due WHERE r.ctid = due.at AND r.user_data = due.user_data AND r.state || '' = 'created'
	RETURNING r.user_data, r.kind, r.type, r.amount, r.destination, r.claims)
SELECT 'claimed', user_data, kind, type, amount, destination, claims FROM claimed
UNION ALL SELECT 'recorded', user_data, '', '', '', '', 0 FROM recorded
UNION ALL SELECT 'waiting', order_id, '', '', '', '', 0 FROM heard
UNION ALL SELECT 'control', '', '', '', '', '', flags + CASE WHEN run_length > 0 THEN 16 ELSE 0 END FROM control
