-- One page of a list. Each part reads the first rows of one range in the order of the list.
SELECT {columns}, {now}
FROM (SELECT * FROM ({parts}) AS parts ORDER BY {order} LIMIT {limit}) AS page
JOIN durable_rows AS r ON r.user_data = page.user_data
LEFT JOIN durable_claims AS c ON c.user_data = r.user_data
ORDER BY {order of page}
