-- What the operators' page needs.

-- +goose Up
CREATE TABLE belongs_to (
    one     BIGINT PRIMARY KEY CHECK (one = 1), -- there is one row at most
    service TEXT NOT NULL                       -- the service and the project whose order_ids stand in this database
);

CREATE TABLE decisions (
    id         TEXT PRIMARY KEY,
    subject    TEXT NOT NULL, -- orders or payouts
    user_data  TEXT NOT NULL,
    decision   TEXT NOT NULL,
    order_id   TEXT NOT NULL, -- what the person knew, '' for nothing
    state      TEXT NOT NULL, -- before
    attention  TEXT NOT NULL, -- what the person was told
    decided_by TEXT NOT NULL, -- as the login says, '' without one
    decided_at BIGINT NOT NULL
);
CREATE INDEX decisions_row ON decisions (user_data, decided_at);

CREATE INDEX orders_pages ON orders (created_at, user_data);
CREATE INDEX orders_attention ON orders (created_at, user_data) WHERE attention <> '';
CREATE INDEX payouts_pages ON payouts (created_at, user_data);
CREATE INDEX payouts_attention ON payouts (created_at, user_data) WHERE attention <> '';
CREATE INDEX notifications_pages ON notifications (received_at, key);
CREATE INDEX notifications_row ON notifications (user_data);

-- +goose Down
DROP INDEX notifications_row;
DROP INDEX notifications_pages;
DROP INDEX payouts_attention;
DROP INDEX payouts_pages;
DROP INDEX orders_attention;
DROP INDEX orders_pages;
DROP TABLE decisions;
DROP TABLE belongs_to;
