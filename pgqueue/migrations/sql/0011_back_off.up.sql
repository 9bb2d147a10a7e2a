-- The end of a pause, of a channel, a lane and a task. The values that the table takes are as in 0001_bounds.

ALTER TABLE pgqueue_channel
    ADD CONSTRAINT pgqueue_channel_times
    CHECK (paused_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');

ALTER TABLE pgqueue_lane
    ADD CONSTRAINT pgqueue_lane_pause
    CHECK (paused_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');

ALTER TABLE pgqueue_task_pause
    ADD CONSTRAINT pgqueue_task_pause_times
    CHECK (until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');

-- A channel that is not paused has no end of its pause. Otherwise the next pause without an end would have that one: psql and
-- code that is older than the column write only `paused`.
CREATE FUNCTION pgqueue_channel_resumed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.paused_until := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER pgqueue_channel_resumed BEFORE INSERT OR UPDATE ON pgqueue_channel
FOR EACH ROW WHEN (NOT NEW.paused AND NEW.paused_until IS NOT NULL)
EXECUTE FUNCTION pgqueue_channel_resumed_v1();

-- Pause channels from now on, since a task was told to wait. A pause that lasts longer, or has no end, stays as it is. A
-- worker may change a channel in no other way.
CREATE FUNCTION pgqueue_work_pause_v1(names text[], delays interval[]) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    INSERT INTO pgqueue_channel AS c (name, paused, paused_until)
    SELECT p.name, true, statement_timestamp() + least(p.delay, interval '100 years')
    FROM unnest($1, $2) AS p (name, delay)
    ORDER BY p.name
    ON CONFLICT (name) DO UPDATE SET paused = true, paused_until = excluded.paused_until
    WHERE NOT c.paused OR c.paused_until < excluded.paused_until
$$;

-- Remove pauses whose end has come, and return their number. The trigger of the table tells the workers that wait.
CREATE FUNCTION pgqueue_work_resume_v1(most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS $$
    WITH over AS MATERIALIZED (
        SELECT c.name FROM pgqueue_channel c
        WHERE c.paused AND c.paused_until <= statement_timestamp()
        LIMIT $1
        FOR NO KEY UPDATE SKIP LOCKED
    ), resumed AS (
        UPDATE pgqueue_channel SET paused = false WHERE name IN (SELECT name FROM over) RETURNING 1
    )
    SELECT count(*) FROM resumed
$$;

-- As in 0008_roles.
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
        WHERE c.oid = 'pgqueue_message'::regclass AND p.prosecdef AND p.proname ~ '^pgqueue_work_'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function,
                       (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE c.oid = 'pgqueue_message'::regclass));
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
