-- The newest events of a key in a partition of the log. The planner thinks that the index of `IndexTrail` finds
-- nothing, and with a LIMIT it would walk the whole partition by position.
CREATE FUNCTION pgqueue_trail_v1(part oid, topics text[], key text, most integer)
RETURNS SETOF pgqueue_event LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = $1) THEN
        RETURN;  -- retention has just removed it
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT position, topic, key, payload, metadata, created_at FROM %s
         WHERE key = $1 AND topic = ANY ($2) ORDER BY position DESC LIMIT $3', $1::regclass)
    USING $3, $2, $4;
END $$;
