-- The rows with one of the user_data.
SELECT {columns}, {now}
FROM durable_rows AS r LEFT JOIN durable_claims AS c ON c.user_data = r.user_data
WHERE r.user_data{users}
