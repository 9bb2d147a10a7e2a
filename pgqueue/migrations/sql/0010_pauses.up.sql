-- The end of a channel's pause. The values that the table takes are as in 0001_bounds.

ALTER TABLE pgqueue_channel
    ADD CONSTRAINT pgqueue_channel_times
    CHECK (paused_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');

-- A channel that is resumed forgets the end of its pause. Otherwise the next pause without an end would have that one: psql and
-- code that is older than the column write only `paused`.
CREATE FUNCTION pgqueue_channel_resumed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.paused_until := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER pgqueue_channel_resumed BEFORE UPDATE ON pgqueue_channel
FOR EACH ROW WHEN (NOT NEW.paused AND NEW.paused_until IS NOT NULL)
EXECUTE FUNCTION pgqueue_channel_resumed_v1();
