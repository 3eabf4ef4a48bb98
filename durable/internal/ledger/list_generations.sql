-- The current generation, and the older generations of queued payouts. One step in the index of the queue finds each
-- generation.
WITH RECURSIVE queued (generation) AS (
	SELECT MIN(generation) FROM durable_queue WHERE kind = 'payout'
	UNION ALL
	SELECT (SELECT MIN(q.generation) FROM durable_queue AS q WHERE q.kind = 'payout' AND q.generation > queued.generation)
	FROM queued WHERE queued.generation IS NOT NULL)
SELECT generation, 1 FROM durable_control
UNION ALL
SELECT queued.generation, 0 FROM queued JOIN durable_control AS control ON queued.generation < control.generation
