-- Version 2 of the tables. Amounts are exact decimal text; times are Unix milliseconds of the database's clock.
CREATE TABLE durable_version (version BIGINT NOT NULL);
CREATE TABLE durable_control (
    one          BIGINT PRIMARY KEY CHECK (one = 1),
    project      TEXT NOT NULL DEFAULT '',
    paused       BIGINT NOT NULL DEFAULT 0,
    pause_until  BIGINT NOT NULL DEFAULT 0,
    pause_length BIGINT NOT NULL DEFAULT 0,
    pause_reason TEXT NOT NULL DEFAULT '',
    paused_by    TEXT NOT NULL DEFAULT '',
    probe        TEXT NOT NULL DEFAULT '',
    hold         BIGINT NOT NULL DEFAULT 0,
    hold_reason  TEXT NOT NULL DEFAULT '',
    held_by      TEXT NOT NULL DEFAULT '',
    generation   BIGINT NOT NULL DEFAULT 1,
    run_code     TEXT NOT NULL DEFAULT '',
    run_length   BIGINT NOT NULL DEFAULT 0,
    run_rows     TEXT NOT NULL DEFAULT '[]',
    fingerprint  TEXT NOT NULL DEFAULT '',
    timeline     TEXT NOT NULL DEFAULT '',
    rounds       BIGINT NOT NULL DEFAULT 0,
    heartbeat    BIGINT NOT NULL DEFAULT 0
);
INSERT INTO durable_control (one) VALUES (1);
CREATE TABLE durable_rows (
    user_data      TEXT PRIMARY KEY,
    kind           TEXT NOT NULL,
    reference      TEXT,
    type           TEXT NOT NULL DEFAULT '',
    amount         TEXT NOT NULL,
    destination    TEXT NOT NULL DEFAULT '',
    batch          TEXT NOT NULL DEFAULT '',
    line           BIGINT NOT NULL DEFAULT 0,
    generation     BIGINT NOT NULL DEFAULT 0,
    state          TEXT NOT NULL,
    order_id       TEXT,
    order_id_taken BIGINT NOT NULL DEFAULT 0,
    redirect_url   TEXT NOT NULL DEFAULT '',
    token          TEXT NOT NULL DEFAULT '',
    claims         BIGINT NOT NULL DEFAULT 0,
    doubted        BIGINT NOT NULL DEFAULT 0,
    claimed_at     BIGINT NOT NULL DEFAULT 0,
    asked          BIGINT NOT NULL DEFAULT 0,
    due_at         BIGINT NOT NULL,
    refusal        TEXT NOT NULL DEFAULT '',
    attention      TEXT NOT NULL DEFAULT '',
    version        BIGINT NOT NULL DEFAULT 1,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    UNIQUE (kind, reference),
    UNIQUE (kind, order_id)
){storage};
CREATE INDEX durable_payments_due ON durable_rows (due_at, user_data) WHERE kind = 'payment' AND state = 'created';
CREATE INDEX durable_payouts_due ON durable_rows (generation, due_at, user_data)
    WHERE kind = 'payout' AND state = 'created';
CREATE INDEX durable_starting ON durable_rows (token) WHERE state = 'starting';
CREATE INDEX durable_unknown ON durable_rows (due_at) WHERE state = 'unknown';
CREATE INDEX durable_states ON durable_rows (kind, state, created_at, user_data);
CREATE INDEX durable_of_batch ON durable_rows (batch, state, created_at, user_data) WHERE batch <> '';
CREATE INDEX durable_attention ON durable_rows (kind, created_at, user_data) WHERE attention <> '';
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
CREATE INDEX durable_waiting_since ON durable_notifications (received_at) WHERE matched = 0;
CREATE INDEX durable_notices_order ON durable_notifications (order_id, received_at);
CREATE INDEX durable_notices_row ON durable_notifications (user_data, received_at);
CREATE TABLE durable_decisions (
    id         TEXT PRIMARY KEY,
    user_data  TEXT NOT NULL,
    decision   TEXT NOT NULL,
    order_id   TEXT NOT NULL,
    state      TEXT NOT NULL,
    attention  TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at BIGINT NOT NULL
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
    rejected       BIGINT NOT NULL DEFAULT 0
);
INSERT INTO durable_version (version) VALUES (2);
