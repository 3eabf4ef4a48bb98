-- One round on PostgreSQL: records completions, and claims due rows for the free slots. Change records a completion
-- with further consequences, such as another row's order_id.
--
-- A round waits for no lock on a claim, a row or a queue entry, so it cannot deadlock with the other transactions.
-- LATERAL looks up one row at a time. LIMIT {slots} is an estimate for the planner. The exact limit applies to payments
-- and payouts together, and ends the scan before it locks further rows. The parameters are in "given", so all rounds
-- can share one plan. The hashes of a pruned row are also evidence of its claim.
WITH given AS MATERIALIZED (
	SELECT CAST($1 AS TEXT) AS identity, CAST($2 AS TEXT) AS last_user, CAST($3 AS TEXT) AS last_token,
		CAST($4 AS BIGINT) AS last_claims, CAST($5 AS BIGINT) AS last_claimed_at,
		CAST($6 AS TEXT)::TEXT[] AS users, CAST($7 AS TEXT)::TEXT[] AS tokens, CAST($8 AS TEXT)::TEXT[] AS orders,
		CAST($9 AS TEXT)::TEXT[] AS urls, CAST($10 AS TEXT)::BIGINT[] AS slots, CAST($11 AS TEXT)::TEXT[] AS early,
		CAST($12 AS TEXT) AS token, CAST($13 AS BIGINT) AS lease, CAST($14 AS BIGINT) AS free,
		CAST($15 AS BIGINT) AS max_rows, CAST($16 AS BIGINT) AS max_payments,
		CAST($17 AS BIGINT) AS payments_due, CAST($18 AS TEXT) AS payments_user,
		CAST($19 AS BIGINT) AS payouts_due, CAST($20 AS TEXT) AS payouts_user,
		CAST($21 AS BIGINT) AS last_high, CAST($22 AS BIGINT) AS last_low),
control AS MATERIALIZED (
	SELECT given.*, generation, now, run_length, CASE
		WHEN {identity} <> given.identity THEN 'moved'
		WHEN last_user <> ''
			AND NOT EXISTS (SELECT 1 FROM durable_claims WHERE user_data = last_user AND token = last_token OFFSET 0)
			AND NOT EXISTS (SELECT 1 FROM durable_rows WHERE user_data = last_user
				AND (claims > last_claims OR claims = last_claims AND (claimed_at IN (last_claimed_at, held_at)
					OR claimed_at BETWEEN last_claimed_at AND held_at)) OFFSET 0)
			AND NOT EXISTS (SELECT 1 FROM durable_pruned WHERE id_high = last_high AND id_low = last_low OFFSET 0) THEN 'lost'
		WHEN paused = 1 OR pause_until BETWEEN now + 1 AND now + {impossible} THEN 'paused'
		WHEN pause_until > 0 THEN 'elapsed' ELSE 'open' END AS status
	FROM given CROSS JOIN (SELECT {now} AS now OFFSET 0) AS clock CROSS JOIN durable_control WHERE one = 1),
early AS MATERIALIZED (
	SELECT named.order_id FROM given CROSS JOIN LATERAL unnest(given.early) AS named (order_id) CROSS JOIN LATERAL (
		SELECT 1 FROM durable_notifications AS n WHERE n.order_id = named.order_id AND n.matched = 0 LIMIT 1) AS found),
completed AS MATERIALIZED (
	SELECT c.*, done.order_id, done.redirect_url, done.slot
	FROM given CROSS JOIN LATERAL unnest(users, tokens, orders, urls, slots)
		AS done (user_data, token, order_id, redirect_url, slot)
	CROSS JOIN LATERAL (
		SELECT c.ctid AS place, c.user_data, c.kind, c.claims, c.claimed_at, c.created_at
		FROM durable_claims AS c JOIN durable_rows AS r ON r.user_data = c.user_data
		WHERE c.user_data = done.user_data AND c.token = done.token AND r.state = 'created' AND r.order_id = ''
			AND NOT EXISTS (SELECT 1 FROM early WHERE early.order_id = done.order_id)
		FOR UPDATE OF c SKIP LOCKED FOR NO KEY UPDATE OF r SKIP LOCKED) AS c),
named AS (
	INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
	SELECT kind, order_id, user_data, created_at, 'pending' FROM completed ORDER BY kind, order_id
	ON CONFLICT DO NOTHING RETURNING user_data),
ended AS (
	DELETE FROM durable_claims AS c USING completed AS d JOIN named USING (user_data) WHERE c.ctid = d.place),
recorded AS (
	UPDATE durable_rows AS r SET state = 'pending', order_id = d.order_id, redirect_url = d.redirect_url, error_code = '',
		review_reason = '', claims = d.claims, claimed_at = d.claimed_at, updated_at = now, version = version + 1
	FROM control CROSS JOIN completed AS d JOIN named USING (user_data) WHERE r.user_data = d.user_data
	RETURNING r.user_data, d.slot),
due AS MATERIALIZED (
	SELECT q.* FROM control CROSS JOIN LATERAL (
		SELECT * FROM (SELECT * FROM (
			SELECT ctid AS place, user_data, due_at FROM durable_queue AS q
			WHERE status = 'open' AND q.kind = 'payment' AND q.generation = 0 AND q.due_at <= now
				AND (q.due_at, q.user_data) > (payments_due, payments_user) AND {unnotified}
			ORDER BY q.due_at, q.user_data LIMIT {slots} FOR UPDATE SKIP LOCKED) AS first LIMIT max_payments) AS payments
		UNION ALL SELECT * FROM (
			SELECT ctid AS place, user_data, due_at FROM durable_queue AS q
			WHERE status = 'open' AND q.kind = 'payout' AND q.generation = control.generation AND q.due_at <= now
				AND (q.due_at, q.user_data) > (payouts_due, payouts_user) AND {unnotified}
			ORDER BY q.due_at, q.user_data LIMIT {slots} FOR UPDATE SKIP LOCKED) AS payouts) AS q
	LIMIT (SELECT LEAST(max_rows, free + (SELECT COALESCE(SUM(slot), 0) FROM recorded)) FROM given)),
taken AS (
	DELETE FROM durable_queue AS q USING due WHERE q.ctid = due.place RETURNING q.user_data, q.due_at),
jobs AS MATERIALIZED (
	SELECT r.*, taken.due_at, now, token, lease FROM control CROSS JOIN taken CROSS JOIN LATERAL (
		SELECT user_data, kind, type, amount, destination, claims + 1 AS claims, created_at FROM durable_rows AS r
		WHERE r.user_data = taken.user_data AND r.state = 'created' LIMIT 1) AS r),
claimed AS (
	INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
	SELECT user_data, kind, token, claims, now, now + lease, created_at FROM jobs
	ON CONFLICT DO NOTHING RETURNING user_data)
SELECT 'claimed' AS part, user_data, kind, type, amount, destination, claims, now AS claimed_at, due_at
	FROM jobs JOIN claimed USING (user_data)
UNION ALL SELECT 'recorded', user_data, '', '', '0', '', 0, 0, 0 FROM recorded
UNION ALL SELECT 'early', order_id, '', '', '0', '', 0, 0, 0 FROM early
UNION ALL SELECT status, '', '', '', '0', '', run_length, 0, 0 FROM control
