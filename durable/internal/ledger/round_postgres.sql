-- One round on PostgreSQL: records completions, and claims due rows for the free slots. A completion that needs more than
-- this, such as one whose order_id is taken, is left out and recorded by Change.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
control AS MATERIALIZED (
	SELECT generation, now, run_length, CASE
		WHEN {identity} <> CAST($1 AS TEXT) THEN 'moved'
		WHEN CAST($2 AS TEXT) <> ''
			AND NOT EXISTS (SELECT 1 FROM durable_claims WHERE user_data = $2 AND token = $3)
			AND NOT EXISTS (SELECT 1 FROM durable_rows WHERE user_data = $2 
				AND (claims > CAST($4 AS BIGINT) OR claims = CAST($4 AS BIGINT) AND claimed_at = CAST($5 AS BIGINT)))
			THEN 'lost'
		WHEN paused = 1 OR pause_until BETWEEN now + 1 AND now + {impossible} THEN 'paused'
		WHEN pause_until > 0 THEN 'elapsed' ELSE 'open' END AS status
	FROM durable_control CROSS JOIN clock),
early AS MATERIALIZED (
	SELECT named.order_id FROM unnest(CAST($11 AS TEXT)::TEXT[]) AS named (order_id) CROSS JOIN LATERAL (
		SELECT 1 FROM durable_notifications AS n WHERE n.order_id = named.order_id AND n.matched = 0 LIMIT 1) AS found),
completed AS MATERIALIZED (
	SELECT c.user_data, c.token, c.kind, c.claims, c.claimed_at, c.created_at, done.order_id, done.redirect_url, done.slot
	FROM unnest(CAST($6 AS TEXT)::TEXT[], CAST($7 AS TEXT)::TEXT[], CAST($8 AS TEXT)::TEXT[], CAST($9 AS TEXT)::TEXT[],
		CAST($10 AS TEXT)::BIGINT[]) AS done (user_data, token, order_id, redirect_url, slot)
	JOIN durable_claims AS c ON c.user_data = done.user_data AND c.token = done.token
	WHERE done.order_id NOT IN (SELECT order_id FROM early)
	FOR UPDATE OF c SKIP LOCKED),
named AS (
	INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
	SELECT kind, order_id, user_data, created_at, 'pending' FROM completed ORDER BY kind, order_id
	ON CONFLICT DO NOTHING RETURNING user_data),
ended AS (
	DELETE FROM durable_claims AS c USING completed AS d JOIN named ON named.user_data = d.user_data
	WHERE c.user_data = d.user_data AND c.token = d.token),
recorded AS (
	UPDATE durable_rows AS r SET state = 'pending', order_id = d.order_id, redirect_url = d.redirect_url, error_code = '',
		review_reason = '', claims = d.claims, claimed_at = d.claimed_at, updated_at = clock.now, version = version + 1
	FROM completed AS d JOIN named ON named.user_data = d.user_data CROSS JOIN clock
	WHERE r.user_data = d.user_data AND r.state = 'created' AND r.order_id = ''
	RETURNING r.user_data, d.slot),
room AS MATERIALIZED (
	SELECT LEAST(CAST($15 AS BIGINT), CAST($14 AS BIGINT) + COALESCE(SUM(slot), 0)) AS rows FROM recorded),
allowed AS MATERIALIZED (SELECT generation, now FROM control WHERE status = 'open'),
payments AS MATERIALIZED (
	SELECT q.ctid AS at FROM durable_queue AS q
	WHERE q.kind = 'payment' AND q.generation = 0 AND q.due_at <= (SELECT now FROM allowed)
		AND (q.due_at, q.user_data) > (CAST($17 AS BIGINT), CAST($18 AS TEXT)) AND {unnotified}
	ORDER BY q.due_at, q.user_data LIMIT (SELECT LEAST(rows, CAST($16 AS BIGINT)) FROM room) FOR UPDATE OF q SKIP LOCKED),
payouts AS MATERIALIZED (
	SELECT q.ctid AS at FROM durable_queue AS q
	WHERE q.kind = 'payout' AND q.generation = (SELECT generation FROM allowed) AND q.due_at <= (SELECT now FROM allowed)
		AND (q.due_at, q.user_data) > (CAST($19 AS BIGINT), CAST($20 AS TEXT)) AND {unnotified}
	ORDER BY q.due_at, q.user_data LIMIT (SELECT rows FROM room) - (SELECT COUNT(*) FROM payments)
	FOR UPDATE OF q SKIP LOCKED),
due AS (
	DELETE FROM durable_queue WHERE ctid = ANY (ARRAY(SELECT at FROM payments UNION ALL SELECT at FROM payouts))
	RETURNING user_data, due_at),
jobs AS MATERIALIZED (
	SELECT r.user_data, r.kind, r.type, r.amount, r.destination, r.claims + 1 AS claims, r.created_at, due.due_at
	FROM due JOIN durable_rows AS r ON r.user_data = due.user_data AND r.state = 'created'),
claimed AS (
	INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
	SELECT user_data, kind, CAST($12 AS TEXT), claims, now, now + CAST($13 AS BIGINT), created_at FROM jobs CROSS JOIN clock
	ON CONFLICT DO NOTHING RETURNING user_data, claimed_at)
SELECT 'claimed' AS part, jobs.user_data, kind, type, amount, destination, claims, claimed_at, due_at
	FROM jobs JOIN claimed ON claimed.user_data = jobs.user_data
UNION ALL SELECT 'recorded', user_data, '', '', '0', '', 0, 0, 0 FROM recorded
UNION ALL SELECT 'early', order_id, '', '', '0', '', 0, 0, 0 FROM early
UNION ALL SELECT status, '', '', '', '0', '', run_length, 0, 0 FROM control
