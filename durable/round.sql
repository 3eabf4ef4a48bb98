-- A round on PostgreSQL, in one statement. A row that cannot go the fast way is left out by the WHERE of "outcomes".
-- The limits are in the text, since PostgreSQL plans with them. It keeps a plan that it may have made when the table was
-- empty and all indexes cost the same, so each scan is written to fit one index only:
--   state || '' and order_id || '' fit no index, so that the key or the ctid finds the rows of a round;
--   an OR of two equal halves implies the predicate of a partial index, but is no condition for the others;
--   order_id >= ... ORDER BY order_id needs the order of the unique index;
--   LATERAL with FOR UPDATE or LIMIT looks up one row at a time.
WITH control AS MATERIALIZED (
	SELECT generation, paused = 1 OR pause_until > {now} AS paused,
		paused = 0 AND pause_until BETWEEN 1 AND {now} AS elapsed, {moved} AS moved,
		CAST($3 AS TEXT) <> '' AND NOT EXISTS (SELECT 1 FROM durable_rows
			WHERE user_data = $3 AND (token = $4 OR claims > $5)) AS lost
	FROM durable_control),
go AS MATERIALIZED (SELECT NOT (paused OR elapsed OR moved OR lost) AS go FROM control),
outcomes AS MATERIALIZED (
	SELECT r.user_data, o.t, o.o, o.r, o.s
	FROM (SELECT * FROM json_to_recordset(CAST($1 AS TEXT)::JSON) AS o(u TEXT, t TEXT, o TEXT, r TEXT, s BIGINT)
		LIMIT {outcomes}) AS o
	CROSS JOIN LATERAL (SELECT user_data FROM durable_rows AS r
		WHERE user_data = o.u AND state || '' = 'starting' AND token = o.t AND order_id || '' IS NULL AND order_id_taken = 0
			AND COALESCE((SELECT x.order_id FROM durable_rows AS x WHERE x.kind = r.kind AND x.order_id >= o.o
				ORDER BY x.order_id LIMIT 1), '') <> o.o
			AND NOT EXISTS (SELECT 1 FROM durable_notifications AS n WHERE n.order_id = o.o AND n.matched = 0)
		FOR UPDATE OF r SKIP LOCKED) AS r WHERE r.user_data = o.u),
recorded AS (
	UPDATE durable_rows AS r SET state = 'pending', order_id = o.o, redirect_url = o.r, refusal = '', attention = '',
		updated_at = {now}, version = version + 1
	FROM outcomes AS o WHERE r.user_data = o.user_data AND r.state || '' = 'starting' AND r.token = o.t
	RETURNING r.user_data, r.kind, o.s),
reset AS (
	UPDATE durable_control SET run_code = '', run_length = 0, run_rows = '[]'
	WHERE run_length > 0 AND EXISTS (SELECT 1 FROM recorded WHERE kind = 'payout')),
payments AS MATERIALIZED (
	SELECT user_data, ctid AS at FROM durable_rows
	WHERE (SELECT go FROM go) AND due_at <= {now}
		AND (kind = 'payment' AND state = 'created' OR 'payment' = kind AND 'created' = state)
		AND {unheard}
	ORDER BY due_at, user_data LIMIT {payments} FOR UPDATE SKIP LOCKED),
payouts AS MATERIALIZED (
	SELECT user_data, ctid AS at FROM durable_rows
	WHERE (SELECT go FROM go) AND due_at <= {now}
		AND (kind = 'payout' AND state = 'created' OR 'payout' = kind AND 'created' = state)
		AND generation = (SELECT generation FROM control)
		AND {unheard}
	ORDER BY due_at, user_data LIMIT {most} FOR UPDATE SKIP LOCKED),
due AS MATERIALIZED (
	SELECT user_data, at, row_number() OVER () AS n FROM (
		SELECT user_data, at FROM payments UNION ALL SELECT user_data, at FROM payouts) AS d),
claimed AS (
	UPDATE durable_rows AS r SET state = 'starting', token = $2, claims = claims + 1, claimed_at = {now},
		due_at = {now} + $6, refusal = '', updated_at = {now}, version = version + 1
	FROM due WHERE r.ctid = due.at AND r.user_data = due.user_data AND r.state || '' = 'created'
		AND due.n <= CAST($8 AS BIGINT) + (SELECT COALESCE(SUM(s), 0) FROM recorded)
	RETURNING r.user_data, r.kind, r.type, r.amount, r.destination, r.claims)
SELECT 'claimed', user_data, kind, type, amount, destination, claims FROM claimed
UNION ALL SELECT 'recorded', user_data, '', '', '', '', 0 FROM recorded
UNION ALL SELECT 'waiting', w.o, '', '', '', '', 0::BIGINT FROM json_array_elements_text(CAST($7 AS TEXT)::JSON) AS w(o)
	CROSS JOIN LATERAL (SELECT 1 FROM durable_notifications WHERE matched = 0 AND order_id = w.o LIMIT 1) AS n
UNION ALL SELECT 'control', '', '', '', '', '', CASE WHEN moved THEN 8 WHEN lost THEN 4 WHEN paused THEN 1
	WHEN elapsed THEN 2 ELSE 0 END FROM control
