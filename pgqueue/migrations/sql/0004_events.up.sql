-- The log. A position is given once, in the order of commits, without gaps. Partitions are a million
-- positions each, made in advance by the duty `sequence`.
CREATE TABLE pgqueue_event (
    position bigint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    payload jsonb,
    metadata jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pgqueue_event_pkey PRIMARY KEY (position),
    -- As in 0001_bounds.
    CONSTRAINT pgqueue_event_times
        CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    CONSTRAINT pgqueue_event_numbers
        CHECK (position BETWEEN 0 AND 4611686018427387904),
    CONSTRAINT pgqueue_event_json
        CHECK (jsonb_typeof(metadata) = 'object')
) PARTITION BY RANGE (position);

CREATE INDEX pgqueue_event_created_at ON pgqueue_event USING brin (created_at);

CREATE TABLE pgqueue_event_0 PARTITION OF pgqueue_event FOR VALUES FROM (0) TO (1000000);
CREATE TABLE pgqueue_event_1 PARTITION OF pgqueue_event FOR VALUES FROM (1000000) TO (2000000);
