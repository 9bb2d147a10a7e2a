-- Circuit breakers: a table of the failures of channels and keys, and the functions by which settles write it.

ALTER TABLE pgqueue_breaker
    ADD CONSTRAINT pgqueue_breaker_arrays
    CHECK (CASE WHEN array_ndims(failed_at) > 1 THEN false
                ELSE array_position(failed_at, NULL) IS NULL AND cardinality(failed_at) <= 1000 END),
    ADD CONSTRAINT pgqueue_breaker_names
    CHECK (octet_length(channel) BETWEEN 1 AND 200 AND octet_length(key) <= 1000),
    ADD CONSTRAINT pgqueue_breaker_numbers
    CHECK (probe_id BETWEEN 1 AND 4611686018427387904 AND probe_attempt >= 0),
    ADD CONSTRAINT pgqueue_breaker_times
    CHECK (open_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND '0001-01-03 00:00+00' <= ALL (failed_at) AND '9999-12-29 00:00+00' >= ALL (failed_at));

-- The breaker that a policy gives to a channel as a whole (key '') or to a key; no row: there is none. A key's own
-- policy replaces the one of each key, also where it has no breaker.
CREATE FUNCTION pgqueue_breaker_of_v1(channel text, key text)
RETURNS TABLE (failures smallint, within interval, pause interval)
LANGUAGE sql STABLE AS $$
    SELECT own.breaker_failures, own.breaker_within, own.breaker_pause
    FROM (
        -- Each by an index, since thousands of keys may have policies.
        SELECT 1 AS place, p.* FROM pgqueue_policy p
        WHERE p.channel = $1 AND p.scope = 'channel' AND p.key = '' AND $2 = ''
        UNION ALL
        SELECT 2, p.* FROM pgqueue_policy p
        WHERE p.channel = $1 AND p.scope = 'key' AND p.key = $2 AND $2 <> ''
        UNION ALL
        SELECT 3, p.* FROM pgqueue_policy p
        WHERE p.channel = $1 AND p.scope = 'each' AND p.key = '' AND $2 <> ''
        ORDER BY place
        LIMIT 1) own
    WHERE own.breaker_failures IS NOT NULL
$$;

-- The times among `failed_at` that count. Times in the future do not: the server's clock was set back. The clock is read
-- here, behind the lock: the statement may have waited for a failure that is later than its own start.
CREATE FUNCTION pgqueue_failed_lately_v1(failed_at timestamptz[], within interval) RETURNS timestamptz[]
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(array_agg(f.at ORDER BY f.at), '{}') FROM unnest($1) AS f (at)
    WHERE f.at > clock_timestamp() - $2 AND f.at <= clock_timestamp()
$$;

-- Note failed runs of a lane for its breakers, and open them: a closed one by enough failures, a half-open one by the
-- failure of its probe. Every statement that locks several breakers does so in the order of channel and key.
CREATE FUNCTION pgqueue_note_failures_v1(channel text, key text, ids bigint[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    scope record;
    fresh timestamptz[];
BEGIN
    FOR scope IN
        SELECT s.key, own.*
        FROM (VALUES ('', true), ($2, $2 <> '')) s (key, is_one)
        CROSS JOIN LATERAL pgqueue_breaker_of_v1($1, s.key) own
        WHERE s.is_one
        ORDER BY s.key COLLATE "C"
    LOOP
        fresh := array_fill(clock_timestamp(), ARRAY[least(cardinality($3), scope.failures)]);
        INSERT INTO pgqueue_breaker AS b (channel, key, failed_at, open_until)
        VALUES ($1, scope.key, fresh,
                CASE WHEN cardinality(fresh) >= scope.failures THEN clock_timestamp() + scope.pause END)
        ON CONFLICT ON CONSTRAINT pgqueue_breaker_pkey DO UPDATE
        SET (failed_at, open_until, probe_id, probe_attempt) = (
            SELECT counted.failed_at[greatest(1, cardinality(counted.failed_at) - scope.failures + 1):],
                   CASE WHEN b.probe_id = ANY ($3)
                          OR b.open_until IS NULL AND cardinality(counted.failed_at) >= scope.failures
                        THEN clock_timestamp() + scope.pause
                        ELSE b.open_until END,
                   CASE WHEN b.probe_id <> ALL ($3) THEN b.probe_id END,
                   CASE WHEN b.probe_id <> ALL ($3) THEN b.probe_attempt END
            FROM (SELECT pgqueue_failed_lately_v1(b.failed_at, scope.within) || fresh AS failed_at) counted);
    END LOOP;
    RETURN true;
END $$;

-- Close the breaker of which a message is the probe: its run has succeeded.
CREATE FUNCTION pgqueue_close_breaker_v1(channel text, key text, probe_id bigint) RETURNS boolean
LANGUAGE sql AS $$
    DELETE FROM pgqueue_breaker b WHERE b.channel = $1 AND b.key = $2 AND b.probe_id = $3 RETURNING true
$$;
