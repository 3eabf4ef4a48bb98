-- The creation times of the first and the last row of a batch. SQLite uses an index for a query of a minimum or a
-- maximum, but not of both.
SELECT
	COALESCE((SELECT MIN(created_at) FROM durable_rows WHERE batch <> '' AND batch = $1), 0),
	COALESCE((SELECT MAX(created_at) FROM durable_rows WHERE batch <> '' AND batch = $1), 0)
