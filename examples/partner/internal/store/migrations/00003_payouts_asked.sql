-- An unknown payout whose order_id is known is asked for, as an order is.

-- +goose Up
ALTER TABLE payouts ADD COLUMN asked BIGINT NOT NULL DEFAULT 0; -- how often the service was asked whether it has it

-- +goose Down
ALTER TABLE payouts DROP COLUMN asked;
