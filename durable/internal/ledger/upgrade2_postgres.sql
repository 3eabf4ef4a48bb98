DROP INDEX durable_payments_due, durable_payouts_due, durable_starting, durable_unknown, durable_states,
    durable_of_batch, durable_attention;
INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
    SELECT user_data, kind, token, claims, claimed_at, due_at, created_at FROM durable_rows WHERE state = 'starting';
ALTER TABLE durable_rows RENAME COLUMN doubted TO may_have_started;
ALTER TABLE durable_rows RENAME COLUMN asked TO polls;
ALTER TABLE durable_rows RENAME COLUMN refusal TO error_code;
ALTER TABLE durable_rows RENAME COLUMN attention TO review_reason;
ALTER TABLE durable_decisions RENAME COLUMN attention TO review_reason;
ALTER TABLE durable_rows
    DROP CONSTRAINT durable_rows_kind_reference_key, DROP CONSTRAINT durable_rows_kind_order_id_key, DROP COLUMN token,
    ALTER COLUMN state TYPE TEXT USING CASE WHEN state = 'starting' THEN 'created' ELSE state END,
    ALTER COLUMN reference TYPE TEXT USING COALESCE(reference, ''),
    ALTER COLUMN reference SET DEFAULT '', ALTER COLUMN reference SET NOT NULL,
    ALTER COLUMN order_id TYPE TEXT USING COALESCE(order_id, ''),
    ALTER COLUMN order_id SET DEFAULT '', ALTER COLUMN order_id SET NOT NULL;
ALTER TABLE durable_rows {generated columns};
ALTER TABLE durable_control DROP COLUMN rounds;
ALTER TABLE durable_batches ADD COLUMN pruned BIGINT NOT NULL DEFAULT 0;
