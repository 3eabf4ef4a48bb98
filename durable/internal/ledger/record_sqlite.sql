-- Stores the order_ids of completions on SQLite. Change records a completion with further consequences, such as another
-- row's order_id.
INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
SELECT c.kind, d.value->>'o', c.user_data, c.created_at, 'pending'
FROM json_each(?1) AS d JOIN durable_claims AS c ON c.user_data = d.value->>'u' AND c.token = d.value->>'t'
JOIN durable_rows AS r ON r.user_data = c.user_data AND r.state = 'created' AND r.order_id = ''
WHERE NOT EXISTS (SELECT 1 FROM durable_notifications AS n WHERE n.order_id = d.value->>'o' AND n.matched = 0)
ON CONFLICT DO NOTHING RETURNING user_data;
-- Records these completions. ?2 is the list of their user_data.
UPDATE durable_rows SET state = 'pending', order_id = d.value->>'o', redirect_url = d.value->>'r', error_code = '',
	review_reason = '', claims = c.claims, claimed_at = c.claimed_at, updated_at = {now}, version = version + 1
FROM json_each(?1) AS d JOIN durable_claims AS c ON c.user_data = d.value->>'u' AND c.token = d.value->>'t'
WHERE durable_rows.user_data = d.value->>'u' AND durable_rows.user_data IN (SELECT value FROM json_each(?2))
	AND durable_rows.state = 'created';
DELETE FROM durable_claims WHERE user_data IN (SELECT value FROM json_each(?2))
	AND token IN (SELECT d.value->>'t' FROM json_each(?1) AS d);
