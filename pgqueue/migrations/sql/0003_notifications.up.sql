-- NOTIFY takes a lock of the whole cluster at commit, so it is sent only where an idle worker waits.
-- These are functions because PostgreSQL keeps the plans of a function: Django's connections plan each
-- statement again, and to plan this query took as long as all the rest of an enqueue.
-- The notification channels are named after the table that the session sees: two queues in one
-- database, each in a schema of its own, never receive each other's.

-- Notify the workers of a channel; return whether one was idle.
CREATE FUNCTION pgqueue_tell_v1(channel text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pgqueue_worker w
        WHERE (channel = ANY (w.channels) OR w.channels IS NULL AND channel <> ALL (w.excluded))
          AND w.notify_until > clock_timestamp())
    THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1(), channel);
    RETURN true;
END $$;

-- Notify the process that promotes, if a message is due before its next look; return whether it was.
CREATE FUNCTION pgqueue_tell_promoter_v1(due timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_duty WHERE name = 'promote' AND due_at > due)
       OR NOT EXISTS (SELECT FROM pgqueue_worker
                      WHERE last_seen > clock_timestamp() - interval '2 minutes')
    THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1(), '');
    RETURN true;
END $$;

-- Return the name of the notification channel of this queue's workers. The names of its other channels begin with it.
CREATE FUNCTION pgqueue_notifications_v1() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'pgqueue_' || 'pgqueue_message'::regclass::oid
$$;

-- Notify those who watch a channel; most channels are not watched. The events are 'created', 'started',
-- 'deferred' (it runs again; the outcome is 'failed' or 'lost' where that is why), 'ended' (the outcome
-- says how) and 'replayed'.
CREATE FUNCTION pgqueue_notice_v1(channel text, id bigint, event text, outcome text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = $1 AND c.watched) THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1() || '_notices',
                      json_build_object('channel', $1, 'id', $2, 'event', $3, 'outcome', $4)::text);
    RETURN true;
END $$;

-- Notify those who wait for the end of a message.
CREATE FUNCTION pgqueue_tell_waiters_v1(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(pgqueue_notifications_v1() || '_results', $1::text);
    RETURN true;
END $$;
