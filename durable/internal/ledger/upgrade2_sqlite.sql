ALTER TABLE durable_rows RENAME TO durable_rows2;
{table durable_rows};
INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
    SELECT user_data, kind, token, claims, claimed_at, due_at, created_at FROM durable_rows2 WHERE state = 'starting';
INSERT INTO durable_rows (user_data, kind, reference, type, amount, destination, batch, line, generation, state,
    order_id, order_id_taken, redirect_url, claims, may_have_started, claimed_at, polls, due_at, error_code,
    review_reason, version, created_at, updated_at)
    SELECT user_data, kind, COALESCE(reference, ''), type, amount, destination, batch, line, generation,
        CASE WHEN state = 'starting' THEN 'created' ELSE state END, COALESCE(order_id, ''), order_id_taken,
        redirect_url, claims, doubted, claimed_at, asked, due_at, refusal, attention, version, created_at, updated_at
    FROM durable_rows2;
DROP TABLE durable_rows2;
ALTER TABLE durable_decisions RENAME COLUMN attention TO review_reason;
UPDATE durable_mark SET mark = (SELECT rounds FROM durable_control);
ALTER TABLE durable_control DROP COLUMN rounds;
ALTER TABLE durable_batches ADD COLUMN pruned BIGINT NOT NULL DEFAULT 0;
