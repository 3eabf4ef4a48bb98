-- When the first and the last row of a batch were created. SQLite uses an index for a minimum or a maximum, not for
-- both.
SELECT
	COALESCE((SELECT MIN(created_at) FROM durable_rows WHERE batch <> '' AND batch = $1), 0),
	COALESCE((SELECT MAX(created_at) FROM durable_rows WHERE batch <> '' AND batch = $1), 0)
