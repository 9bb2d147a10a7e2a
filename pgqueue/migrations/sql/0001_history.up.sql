-- One partition for each UTC day, made in advance. There is no default partition: with one, attaching
-- would wait for readers, and PostgreSQL refuses to detach concurrently.
CREATE TABLE pgqueue_history (
    id bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamptz NOT NULL,
    expires_at timestamptz,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE "C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    cancel_requested_at timestamptz,
    parent_id bigint,
    flow_id bigint,
    created_at timestamptz NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- The transaction that settled it: readers follow commits by it.
    txid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    CONSTRAINT pgqueue_history_outcome
        CHECK (outcome IN ('succeeded', 'cancelled', 'discarded', 'expired')),
    -- As in 0001_bounds.
    CONSTRAINT pgqueue_history_times
        CHECK (run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
               AND expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
               AND claimed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
               AND started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
               AND cancel_requested_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
               AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
               AND finished_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    CONSTRAINT pgqueue_history_numbers
        CHECK (id BETWEEN 1 AND 4611686018427387904
               AND attempt >= 0
               AND failures >= 0
               AND lost >= 0
               AND max_attempts >= 0
               AND txid BETWEEN 0 AND 4611686018427387904),
    CONSTRAINT pgqueue_history_json
        CHECK (jsonb_typeof(metadata) = 'object' AND jsonb_typeof(errors) = 'array')
) PARTITION BY RANGE (finished_at);

CREATE INDEX pgqueue_history_id ON pgqueue_history (id);
CREATE INDEX pgqueue_history_txid ON pgqueue_history (txid, id);
CREATE INDEX pgqueue_history_finished_at ON pgqueue_history USING brin (finished_at);
-- Only flows are found in history by this: other rows cost nothing.
CREATE INDEX pgqueue_history_flow ON pgqueue_history (flow_id) WHERE flow_id IS NOT NULL;

DO $$
DECLARE
    today timestamp := date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC');
    day timestamp;
BEGIN
    FOR day IN SELECT generate_series(today - interval '1 day', today + interval '14 days', '1 day') LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF pgqueue_history FOR VALUES FROM (%L) TO (%L)',
            'pgqueue_history_' || to_char(day, 'YYYYMMDD'),
            day AT TIME ZONE 'UTC', (day + interval '1 day') AT TIME ZONE 'UTC');
    END LOOP;
END $$;
