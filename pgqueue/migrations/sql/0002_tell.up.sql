-- Notifying takes a lock of the whole cluster at commit: so it is done only where somebody
-- idle waits. Functions, since their plans are kept: Django's connections plan each statement
-- anew, and planning this look at the workers took as long as all the rest of an enqueue.
-- The notifications are named after the table that the session sees: two queues in one
-- database, each in a schema of its own, never hear each other.

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

-- Due earlier than the promoter means to look.
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

CREATE FUNCTION pgqueue_notifications_v1() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'pgqueue_' || 'pgqueue_message'::regclass::oid
$$;
