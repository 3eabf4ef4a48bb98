-- One round on PostgreSQL: records completions, and claims due rows for the free slots. A completion that needs more than
-- this, such as one whose order_id is taken, is left out and recorded by Change.
WITH control AS MATERIALIZED (
	SELECT generation, now, run_length, CASE
		WHEN {identity} <> CAST($1 AS TEXT) THEN 'moved'
		WHEN CAST($2 AS TEXT) <> ''
			AND NOT EXISTS (SELECT 1 FROM durable_claims WHERE user_data = $2 AND token = $3)
			AND NOT EXISTS (SELECT 1 FROM durable_rows WHERE user_data = $2
				AND (claims > CAST($4 AS BIGINT) OR claims = CAST($4 AS BIGINT) AND claimed_at = CAST($5 AS BIGINT)))
			THEN 'lost'
		WHEN paused = 1 OR pause_until BETWEEN now + 1 AND now + {impossible} THEN 'paused'
		WHEN pause_until > 0 THEN 'elapsed' ELSE 'open' END AS status
	FROM durable_control CROSS JOIN (SELECT {now} AS now OFFSET 0) AS clock WHERE one = 1),
early AS MATERIALIZED (
	SELECT order_id FROM durable_notifications WHERE matched = 0 AND order_id = ANY (CAST($11 AS TEXT)::TEXT[])),
completed AS MATERIALIZED (
	SELECT c.*, done.order_id, done.redirect_url, done.slot
	FROM unnest(CAST($6 AS TEXT)::TEXT[], CAST($7 AS TEXT)::TEXT[], CAST($8 AS TEXT)::TEXT[], CAST($9 AS TEXT)::TEXT[],
		CAST($10 AS TEXT)::BIGINT[]) AS done (user_data, token, order_id, redirect_url, slot)
	CROSS JOIN LATERAL (SELECT ctid AS place, user_data, kind, claims, claimed_at, created_at FROM durable_claims AS c
		WHERE c.user_data = done.user_data AND c.token = done.token FOR UPDATE SKIP LOCKED) AS c
	WHERE done.order_id NOT IN (SELECT order_id FROM early)),
named AS (
	INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
	SELECT kind, order_id, user_data, created_at, 'pending' FROM completed ORDER BY kind, order_id
	ON CONFLICT DO NOTHING RETURNING user_data),
ended AS (
	DELETE FROM durable_claims AS c USING completed AS d JOIN named USING (user_data) WHERE c.ctid = d.place),
recorded AS (
	UPDATE durable_rows AS r SET state = 'pending', order_id = d.order_id, redirect_url = d.redirect_url, error_code = '',
		review_reason = '', claims = d.claims, claimed_at = d.claimed_at, updated_at = now, version = version + 1
	FROM control CROSS JOIN completed AS d JOIN named USING (user_data)
	WHERE r.user_data = d.user_data AND r.state = 'created' AND r.order_id = ''
	RETURNING r.user_data, d.slot),
due AS MATERIALIZED (
	SELECT q.* FROM control CROSS JOIN LATERAL (
		SELECT * FROM (SELECT ctid AS place, user_data, due_at FROM durable_queue AS q
			WHERE status = 'open' AND q.kind = 'payment' AND q.generation = 0 AND q.due_at <= now
				AND (q.due_at, q.user_data) > (CAST($17 AS BIGINT), CAST($18 AS TEXT)) AND {unnotified}
			ORDER BY q.due_at, q.user_data LIMIT CAST($16 AS BIGINT) FOR UPDATE SKIP LOCKED) AS payments
		UNION ALL SELECT * FROM (SELECT ctid AS place, user_data, due_at FROM durable_queue AS q
			WHERE status = 'open' AND q.kind = 'payout' AND q.generation = control.generation AND q.due_at <= now
				AND (q.due_at, q.user_data) > (CAST($19 AS BIGINT), CAST($20 AS TEXT)) AND {unnotified}
			ORDER BY q.due_at, q.user_data LIMIT CAST($15 AS BIGINT) FOR UPDATE SKIP LOCKED) AS payouts) AS q
	LIMIT LEAST(CAST($15 AS BIGINT), CAST($14 AS BIGINT) + (SELECT COALESCE(SUM(slot), 0) FROM recorded))),
taken AS (
	DELETE FROM durable_queue AS q USING due WHERE q.ctid = due.place RETURNING q.user_data, q.due_at),
jobs AS MATERIALIZED (
	SELECT r.*, taken.due_at, now FROM control CROSS JOIN taken
	CROSS JOIN LATERAL (SELECT user_data, kind, type, amount, destination, claims + 1 AS claims, created_at
		FROM durable_rows AS r WHERE r.user_data = taken.user_data AND r.state = 'created' LIMIT 1) AS r),
claimed AS (
	INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
	SELECT user_data, kind, CAST($12 AS TEXT), claims, now, now + CAST($13 AS BIGINT), created_at FROM jobs
	ON CONFLICT DO NOTHING RETURNING user_data)
SELECT 'claimed' AS part, user_data, kind, type, amount, destination, claims, now AS claimed_at, due_at
	FROM jobs JOIN claimed USING (user_data)
UNION ALL SELECT 'recorded', user_data, '', '', '0', '', 0, 0, 0 FROM recorded
UNION ALL SELECT 'early', order_id, '', '', '0', '', 0, 0, 0 FROM early
UNION ALL SELECT status, '', '', '', '0', '', run_length, 0, 0 FROM control
