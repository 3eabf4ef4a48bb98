-- One schema for SQLite and PostgreSQL. Amounts are exact decimal text, never a float; times are Unix milliseconds.

-- +goose Up
CREATE TABLE orders (
    user_data    TEXT PRIMARY KEY, -- ours, made and stored before the first call
    payment_type TEXT NOT NULL,
    amount       TEXT NOT NULL,
    state        TEXT NOT NULL,    -- see State
    order_id     TEXT UNIQUE,      -- the service's, NULL until it is known
    order_id_taken BIGINT NOT NULL DEFAULT 0, -- 1 once the service gave it an order_id that another row has
    redirect_url TEXT NOT NULL DEFAULT '',
    attempt      TEXT NOT NULL DEFAULT '', -- names the claim that may record an outcome
    attempts     BIGINT NOT NULL DEFAULT 0,
    doubted      BIGINT NOT NULL DEFAULT 0, -- 1 once an attempt had an unknown outcome
    claimed_at   BIGINT NOT NULL DEFAULT 0, -- when the last claim was made
    asked        BIGINT NOT NULL DEFAULT 0, -- how often the service was asked whether it has it
    due_at       BIGINT NOT NULL,  -- when somebody has to look at it again
    refusal      TEXT NOT NULL DEFAULT '', -- the service's error code
    attention    TEXT NOT NULL DEFAULT '', -- why a person must look, '' where none must
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
CREATE INDEX orders_due ON orders (state, due_at);

CREATE TABLE payout_files (
    id         TEXT PRIMARY KEY, -- SHA-256 of the file, so that one imported twice is one
    name       TEXT NOT NULL,
    read_lines BIGINT NOT NULL DEFAULT 0, -- lines dealt with so far: where an import goes on
    read_rows  BIGINT NOT NULL DEFAULT 0, -- rows dealt with so far: imported, known and refused ones
    complete   BIGINT NOT NULL DEFAULT 0, -- 1 once the last line has been dealt with
    created_at BIGINT NOT NULL
);

CREATE TABLE payouts (
    user_data   TEXT PRIMARY KEY,
    reference   TEXT NOT NULL UNIQUE, -- the partner's own name for the payout: one is paid once, in whichever file it stands
    file_id     TEXT NOT NULL REFERENCES payout_files (id),
    line        BIGINT NOT NULL,
    amount      TEXT NOT NULL,
    destination TEXT NOT NULL,        -- may be a card number: protect the database accordingly
    state       TEXT NOT NULL,        -- see State
    order_id    TEXT UNIQUE,
    order_id_taken BIGINT NOT NULL DEFAULT 0,
    attempt     TEXT NOT NULL DEFAULT '',
    attempts    BIGINT NOT NULL DEFAULT 0,
    doubted     BIGINT NOT NULL DEFAULT 0,
    claimed_at  BIGINT NOT NULL DEFAULT 0,
    due_at      BIGINT NOT NULL,
    refusal     TEXT NOT NULL DEFAULT '',
    attention   TEXT NOT NULL DEFAULT '',
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (file_id, line)
);
CREATE INDEX payouts_due ON payouts (state, due_at);
CREATE INDEX payouts_file ON payouts (file_id, state, attention);

CREATE TABLE payout_rows_known (
    file_id   TEXT NOT NULL REFERENCES payout_files (id),
    line      BIGINT NOT NULL,
    user_data TEXT NOT NULL REFERENCES payouts (user_data), -- the payout, which another file brought
    PRIMARY KEY (file_id, user_data)
);

CREATE TABLE payout_rows_refused (
    file_id TEXT NOT NULL REFERENCES payout_files (id),
    line    BIGINT NOT NULL,
    reason  TEXT NOT NULL, -- holds nothing of the row
    PRIMARY KEY (file_id, line)
);

CREATE TABLE notifications (
    key         TEXT PRIMARY KEY, -- Notification.Key: a repetition finds itself here
    event       TEXT NOT NULL,
    order_id    TEXT NOT NULL,
    user_data   TEXT NOT NULL,
    status      BIGINT NOT NULL,
    status_name TEXT NOT NULL,
    status_code BIGINT NOT NULL,
    amount      TEXT NOT NULL,
    matched     BIGINT NOT NULL, -- 0 until the order or payout that it speaks of is known
    received_at BIGINT NOT NULL
);
CREATE INDEX notifications_order ON notifications (order_id, received_at);

-- +goose Down
DROP TABLE notifications;
DROP TABLE payout_rows_refused;
DROP TABLE payout_rows_known;
DROP TABLE payouts;
DROP TABLE payout_files;
DROP TABLE orders;
