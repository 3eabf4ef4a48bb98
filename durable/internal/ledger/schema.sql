-- The schema of both databases. Amounts are exact decimal texts. Times are Unix milliseconds of the database's clock.
CREATE TABLE durable_version (version BIGINT NOT NULL);
CREATE TABLE durable_control (
    one          BIGINT PRIMARY KEY CHECK (one = 1),
    project      TEXT NOT NULL DEFAULT '',
    paused       BIGINT NOT NULL DEFAULT 0,
    pause_until  BIGINT NOT NULL DEFAULT 0, -- the end of a timed pause, or the beginning of a pause until Resume
    pause_length BIGINT NOT NULL DEFAULT 0,
    pause_reason TEXT NOT NULL DEFAULT '',
    paused_by    TEXT NOT NULL DEFAULT '',
    probe        TEXT NOT NULL DEFAULT '',
    hold         BIGINT NOT NULL DEFAULT 0,
    hold_reason  TEXT NOT NULL DEFAULT '',
    held_by      TEXT NOT NULL DEFAULT '',
    held_at      BIGINT NOT NULL DEFAULT 0,
    generation   BIGINT NOT NULL DEFAULT 1,
    run_code     TEXT NOT NULL DEFAULT '',
    run_length   BIGINT NOT NULL DEFAULT 0,
    run_rows     TEXT NOT NULL DEFAULT '[]',
    fingerprint  TEXT NOT NULL DEFAULT '',
    timeline     TEXT NOT NULL DEFAULT '',
    heartbeat    BIGINT NOT NULL DEFAULT 0
);
INSERT INTO durable_control (one) VALUES (1);
-- A witness outside the database stores the mark too. A database with a lower mark is an older copy.
CREATE TABLE durable_mark (
    one  BIGINT PRIMARY KEY CHECK (one = 1),
    mark BIGINT NOT NULL
);
INSERT INTO durable_mark (one, mark) VALUES (1, 0);
-- A call updates its row once and changes no indexed column, so PostgreSQL writes no index entry for the row. The state
-- is 'created' while durable_queue or durable_claims contains the user_data.
CREATE TABLE durable_rows (
    user_data        TEXT PRIMARY KEY,
    kind             TEXT NOT NULL,
    reference        TEXT NOT NULL DEFAULT '',
    type             TEXT NOT NULL DEFAULT '',
    amount           TEXT NOT NULL,
    destination      TEXT NOT NULL DEFAULT '',
    batch            TEXT NOT NULL DEFAULT '',
    line             BIGINT NOT NULL DEFAULT 0,
    generation       BIGINT NOT NULL DEFAULT 0,
    state            TEXT NOT NULL,
    order_id         TEXT NOT NULL DEFAULT '',
    order_id_taken   BIGINT NOT NULL DEFAULT 0,
    redirect_url     TEXT NOT NULL DEFAULT '',
    claims           BIGINT NOT NULL DEFAULT 0,
    may_have_started BIGINT NOT NULL DEFAULT 0,
    claimed_at       BIGINT NOT NULL DEFAULT 0,
    polls            BIGINT NOT NULL DEFAULT 0,
    due_at           BIGINT NOT NULL,
    error_code       TEXT NOT NULL DEFAULT '',
    review_reason    TEXT NOT NULL DEFAULT '',
    version          BIGINT NOT NULL DEFAULT 1,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    -- Lists use rare and review. rare is '' for a usual row, because durable_queue, durable_claims or durable_orders
    -- contains the row. rare is the state of any other row: failed, rejected, unknown, succeeded without an order_id,
    -- or any state with an error code or a review reason. A usual call changes neither column.
    rare             TEXT GENERATED ALWAYS AS (CASE WHEN error_code = '' AND review_reason = ''
        AND (state = 'created' OR state IN ('pending', 'succeeded') AND order_id <> '')
        THEN '' ELSE state END) {generated},
    review           SMALLINT GENERATED ALWAYS AS (CASE WHEN review_reason = '' THEN 0 ELSE 1 END) {generated}
){rows};
CREATE INDEX durable_rows_created ON durable_rows (kind, created_at, user_data);
CREATE INDEX durable_rows_rare ON durable_rows (kind, rare, review, created_at, user_data) WHERE rare <> '';
CREATE INDEX durable_rows_unknown ON durable_rows (due_at) WHERE rare = 'unknown';
CREATE INDEX durable_rows_code ON durable_rows (kind, error_code, rare, review, created_at, user_data)
    WHERE error_code <> '';
CREATE INDEX durable_rows_batch ON durable_rows (batch, created_at, user_data) WHERE batch <> '';
-- Rows that wait for a call, in the order of their due times. A claim deletes the entry.
CREATE TABLE durable_queue (
    kind       TEXT NOT NULL,
    generation BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    user_data  TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (kind, generation, due_at, user_data)
){narrow};
CREATE INDEX durable_queue_created ON durable_queue (kind, generation, created_at, user_data);
-- Claimed rows, including those of dead processes. The primary key prevents two calls at once for one row.
CREATE TABLE durable_claims (
    user_data  TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    token      TEXT NOT NULL,
    claims     BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    ends_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL
){narrow};
-- The order_ids of rows. An order_id belongs to one row of a kind. state and created_at are copies from the row.
CREATE TABLE durable_orders (
    kind       TEXT NOT NULL,
    order_id   TEXT NOT NULL,
    user_data  TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    state      TEXT NOT NULL,
    PRIMARY KEY (kind, order_id)
){narrow};
CREATE INDEX durable_orders_state ON durable_orders (kind, state, created_at, user_data)
    WHERE state IN ('pending', 'succeeded');
CREATE TABLE durable_notifications (
    key         TEXT PRIMARY KEY,
    event       TEXT NOT NULL,
    order_id    TEXT NOT NULL,
    user_data   TEXT NOT NULL,
    status      BIGINT NOT NULL,
    status_name TEXT NOT NULL,
    status_code BIGINT NOT NULL,
    amount      TEXT NOT NULL,
    matched     BIGINT NOT NULL DEFAULT 0,
    received_at BIGINT NOT NULL
);
CREATE INDEX durable_waiting ON durable_notifications (order_id) WHERE matched = 0;
CREATE INDEX durable_waiting_row ON durable_notifications (user_data) WHERE matched = 0;
CREATE INDEX durable_waiting_since ON durable_notifications (received_at) WHERE matched = 0;
CREATE INDEX durable_waiting_final ON durable_notifications (event, received_at)
    WHERE matched = 0 AND status_name IN ('SUCCESS', 'FAILURE');
CREATE INDEX durable_notices_order ON durable_notifications (order_id, received_at);
CREATE INDEX durable_notices_row ON durable_notifications (user_data, received_at);
-- matched is 2 for a notification of a pruned row, until Prune deletes the notification too.
CREATE INDEX durable_notices_pruned ON durable_notifications (received_at) WHERE matched = 2;
-- Genuine unreadable notifications. body is the base64 of the first 64 KiB, key is the SHA-256 of the whole body.
CREATE TABLE durable_unreadable (
    key         TEXT PRIMARY KEY,
    reason      TEXT NOT NULL,
    body        TEXT NOT NULL,
    size        BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    reviewed_by TEXT NOT NULL DEFAULT '',
    reviewed_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX durable_unreadable_waiting ON durable_unreadable (received_at) WHERE reviewed_at = 0;
CREATE TABLE durable_decisions (
    id            TEXT PRIMARY KEY,
    user_data     TEXT NOT NULL,
    decision      TEXT NOT NULL,
    order_id      TEXT NOT NULL,
    state         TEXT NOT NULL,
    review_reason TEXT NOT NULL,
    decided_by    TEXT NOT NULL,
    decided_at    BIGINT NOT NULL
);
CREATE INDEX durable_decisions_row ON durable_decisions (user_data, decided_at);
CREATE TABLE durable_events_due (
    id         TEXT PRIMARY KEY,
    user_data  TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    refund_key TEXT NOT NULL,
    due_at     BIGINT NOT NULL,
    tries      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX durable_events_due_at ON durable_events_due (due_at);
CREATE TABLE durable_batches (
    id             TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    line           BIGINT NOT NULL DEFAULT 0,
    complete       BIGINT NOT NULL DEFAULT 0,
    expected_rows  BIGINT NOT NULL DEFAULT 0,
    expected_total TEXT,
    created_at     BIGINT NOT NULL,
    rejected       BIGINT NOT NULL DEFAULT 0,
    refs           TEXT NOT NULL DEFAULT '',
    pruned         BIGINT NOT NULL DEFAULT 0
);
-- Pruned rows, as hashes of the user_data, of the caller's values, and of the order_id (0 for no order_id).
CREATE TABLE durable_pruned (
    id_high     BIGINT NOT NULL,
    id_low      BIGINT NOT NULL,
    values_hash BIGINT NOT NULL,
    order_hash  BIGINT NOT NULL,
    PRIMARY KEY (id_high, id_low)
){narrow};
CREATE INDEX durable_pruned_order ON durable_pruned (order_hash) WHERE order_hash <> 0;
INSERT INTO durable_version (version) VALUES (5);
