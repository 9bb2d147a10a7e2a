-- Most messages are due at once, and are of channels that nobody has made rules for, and nobody
-- watches. pgqueue_enqueue_v1 asks about each of that apart, and with 32 clients on two cores,
-- whose caches none of them finds as he left them, an enqueue takes it twice as long as this.

-- Store a message that is due at once, has no dedupe key and is not ordered. Returns what
-- pgqueue_enqueue_v1 does, as text, which takes less than columns: "id created_at is_told came_of", the
-- time in microseconds since 1970; for an id that was not given, "-".
CREATE FUNCTION pgqueue_enqueue_now_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, expires_at timestamptz, expires_after interval, parent_id bigint)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    is_special boolean;
    is_told boolean;
    said text;
BEGIN
    SELECT EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = channel)
               OR EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = channel AND c.watched),
           -- As pgqueue_tell_v1 asks.
           EXISTS (SELECT FROM pgqueue_worker w
                   WHERE (channel = ANY (w.channels) OR w.channels IS NULL AND channel <> ALL (w.excluded))
                     AND w.notify_until > clock_timestamp())
    INTO is_special, is_told;
    IF is_special THEN
        SELECT coalesce(e.id::text, '-') || ' ' || (date_part('epoch', e.created_at) * 1000000)::bigint
               || ' ' || e.is_told || ' ' || e.came_of
        INTO said
        FROM pgqueue_enqueue_v1(
            channel, key, task, payload, body, metadata, options, priority, max_attempts, NULL, NULL,
            expires_at, expires_after, NULL, false, NULL, NULL, false, parent_id, NULL) AS e;
        RETURN said;
    END IF;
    INSERT INTO pgqueue_message
        (channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
         run_at, created_at, expires_at, ordered, governed, parent_id)
    VALUES (channel, key, task, payload, body, metadata, options, priority, max_attempts, 'ready',
            statement_timestamp(), statement_timestamp(),
            least(expires_at, statement_timestamp() + expires_after), false, false, parent_id)
    RETURNING id || ' ' || (date_part('epoch', created_at) * 1000000)::bigint || ' ' || is_told || ' stored'
    INTO said;
    IF is_told THEN
        PERFORM pg_notify(pgqueue_notifications_v1(), channel);
    END IF;
    RETURN said;
END $$;
