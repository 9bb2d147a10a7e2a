-- Every verb here first locks its rows, fenced by (id, attempt, worker_id). A row that another
-- transaction has locked is skipped: a cancelling transaction may stay open for long, and the rest of
-- the batch must not wait for it. `lease.valid` tells a locked row from a lost lease.

-- name: each_once
-- A batch may have a message twice: for a run that lost its lease, and for the run after it.
SELECT DISTINCT ON (message, fence, holder) *

-- name: mine
-- Follows "WITH ended AS (… AS e (message, fence, holder …))". Each row must be found by its primary
-- key, although the statistics of this table are always old. The LIMIT keeps the condition on the state
-- out of the lookup: with it, the planner may take the partial index of running messages and read all
-- of them for each row.
mine AS MATERIALIZED (
    SELECT locked.id, locked.cancel_requested_at, e.fence AS locked_fence
    FROM ended e CROSS JOIN LATERAL (
        SELECT m.id, m.state, m.cancel_requested_at
        FROM pgqueue_message m
        WHERE m.id = e.message AND m.attempt = e.fence AND m.worker_id = e.holder
        LIMIT 1
        FOR UPDATE SKIP LOCKED) locked
    WHERE locked.state = 'running'
)

-- name: to_be_changed
-- The end of "UPDATE pgqueue_message m SET …": only rows of this run without a request to cancel.
    FROM ended
    WHERE m.id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL))
      AND m.id = ended.message AND m.attempt = ended.fence AND m.worker_id = ended.holder

-- name: changed_or_cancelled
-- The end of a verb whose messages stay in the table, except messages with a request to cancel. It follows `changed`,
-- which returns a fault.
-- include: cancelled_as_asked
, became AS (
    SELECT id, channel, key, governed, flow_id, state AS word, fault FROM changed
    UNION ALL
    SELECT id, channel, key, governed, flow_id, outcome, NULL FROM gone
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM became

-- name: one_more_failure
least(failures, 2147483646) + 1

-- name: one_more_failure_anew
-- The failures of a durable run are counted since it has finished a step.
least(CASE WHEN anew THEN 0 ELSE failures END, 2147483646) + 1,
        lost = CASE WHEN anew THEN 0 ELSE lost END

-- name: when_it_started
-- The worker measures from the moment it sent the claim, which is a network delay before claimed_at.
-- Bounded by now, as the end of the run is, so that a run neither starts in the future nor after its end.
least(claimed_at + started_after * interval '1 microsecond', statement_timestamp())

-- name: when_it_finished
-- Not before yesterday: the partition of an older day may have been dropped.
greatest(least(claimed_at + finished_after * interval '1 microsecond', statement_timestamp()),
         date_trunc('day', statement_timestamp(), 'UTC') - interval '24 hours')

-- name: of_those_done
    FROM done JOIN ended
        ON ended.message = done.id AND ended.fence = done.attempt AND ended.holder = done.worker_id

-- name: succeeded
-- The end of a verb whose messages have moved into history.
, became AS (
    SELECT id, channel, key, governed, flow_id, 'succeeded' AS word, NULL AS fault FROM done
),
-- include: success_heard
SELECT id, (SELECT count(*) FROM told) FROM done

-- name: complete
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[],
                %(results)s::text[], %(started)s::bigint[], %(finished)s::bigint[])
        AS e (message, fence, holder, result, started_after, finished_after)
),
-- include: mine
, done AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM mine)) RETURNING *
), kept AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome, result, finished_at)
    SELECT
-- include: history_columns
        ,
-- include: when_it_started
        , 'succeeded', result::jsonb,
-- include: when_it_finished
-- include: of_those_done
)
-- include: succeeded

-- name: complete_durable
-- As `complete`, with the steps of each message.
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[],
                %(results)s::text[], %(started)s::bigint[], %(finished)s::bigint[], %(steps)s::text[])
        AS e (message, fence, holder, result, started_after, finished_after, steps)
),
-- include: mine
, done AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM mine)) RETURNING *
), kept AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome, result, finished_at, steps)
    SELECT
-- include: history_columns
        ,
-- include: when_it_started
        , 'succeeded', result::jsonb,
-- include: when_it_finished
        , pgqueue_take_steps_v1(id, channel, ended.steps::jsonb)
-- include: of_those_done
)
-- include: succeeded

-- name: suspend
-- Store what each message waits for, and take it from its worker. A message without a time is held until it is woken.
-- Its bell has the router look for a signal that came before, or for the ends of messages that it waits for: in a later
-- statement, so that neither misses the other.
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[], %(steps)s::text[], %(delays)s::interval[],
                %(untils)s::timestamptz[], %(woken)s::boolean[], %(progressed)s::boolean[], %(leaving)s::boolean[])
        AS e (message, fence, holder, steps, delay, until, is_woken, has_progressed, leaves_lane)
),
-- include: mine
, noted AS (
    INSERT INTO pgqueue_step AS s
        (message_id, name, number, kind, function, state, signals, result, error, tries, attempt, until, started_at, finished_at)
    SELECT message, r.name, r.number, r.kind, coalesce(r.function, ''), r.state, coalesce(r.signals, '{}'), r.result, r.error,
           coalesce(r.tries, 1), fence,
           CASE WHEN r.state IN ('waiting', 'retrying')
                THEN coalesce(ended.until, statement_timestamp() + ended.delay) END,
           statement_timestamp(), CASE WHEN r.state = 'done' THEN statement_timestamp() END
    FROM ended JOIN mine ON mine.id = message AND mine.locked_fence = ended.fence
    CROSS JOIN LATERAL jsonb_to_recordset(ended.steps::jsonb)
        AS r (name text, number integer, kind text, function text, state text, signals text[], result jsonb, error jsonb, tries integer)
    WHERE mine.cancel_requested_at IS NULL
    ON CONFLICT (message_id, name) DO UPDATE
    SET (state, signals, result, error, tries, attempt, finished_at) =
            (excluded.state, excluded.signals, excluded.result, excluded.error, excluded.tries, excluded.attempt, excluded.finished_at),
        until = CASE WHEN s.state = 'waiting' AND excluded.state = 'waiting' THEN s.until ELSE excluded.until END
    WHERE s.state IN ('waiting', 'retrying')
), changed AS (
    UPDATE pgqueue_message m
    SET state = CASE WHEN ended.until IS NULL AND delay IS NULL THEN 'held'
                     WHEN ended.until > statement_timestamp() OR delay > interval '0' THEN 'scheduled'
                     ELSE 'ready' END,
        run_at = coalesce(ended.until, statement_timestamp() + delay, run_at),
        failures = CASE WHEN has_progressed THEN 0 ELSE failures END,
        lost = CASE WHEN has_progressed THEN 0 ELSE lost END,
        -- It has started, so that it no longer expires.
        expires_at = NULL,
        ordered = m.ordered AND NOT leaves_lane,
        metadata =
-- include: not_handed_back
        ,
        governed =
-- include: governed_anew
        ,
        worker_id = NULL,
        lease_until = NULL
-- include: to_be_changed
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, NULL AS fault, is_woken
), looked AS (
    INSERT INTO pgqueue_bell (channel, woken, ended)
    SELECT channel, array_agg(changed.id) FILTER (WHERE is_woken), array_agg(b.watched_id) FILTER (WHERE b.watched_id IS NOT NULL)
    FROM changed LEFT JOIN pgqueue_blocked b ON b.message_id = changed.id
    WHERE is_woken OR b.watched_id IS NOT NULL
    GROUP BY channel
),
-- include: changed_or_cancelled

-- name: restart
-- Have each message run from its top with other arguments, as if it were new. Its place stays: its id, its dedupe key, its
-- turn in an ordered lane, and the signals that no step has taken. Events are for the step that has waited for them. A
-- signal with a dedupe id stays for 30 days, so that a repetition does not count. The id of a link is of its round. The
-- calls of a `gather(cancels=True)` that the run has left are cancelled, as by `pgqueue_take_steps_v1`.
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[], %(payloads)s::text[])
        AS e (message, fence, holder, given)
),
-- include: mine
, forgotten AS (
    DELETE FROM pgqueue_step WHERE message_id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL))
    RETURNING message_id, kind, state, result
), cleaning AS (
    INSERT INTO pgqueue_message
        (channel, key, task, payload, metadata, priority, max_attempts, state, run_at, created_at, ordered, governed)
    SELECT m.channel, '', 'pgqueue.durable.cleaning.cancel_calls',
           jsonb_build_object('args', jsonb_build_array(f.result ->> 'flow'), 'kwargs', '{}'::jsonb), '{}', 0, 20, 'ready',
           statement_timestamp(), statement_timestamp(), false, pgqueue_is_governed_v1(m.channel, '')
    FROM forgotten f CROSS JOIN LATERAL (SELECT channel FROM pgqueue_message WHERE id = f.message_id LIMIT 1) m
    WHERE f.kind = 'call' AND f.state = 'waiting' AND f.result -> 'cancels' = 'true'
    RETURNING id, channel, key, governed, state
), spent AS (
    DELETE FROM pgqueue_signal
    WHERE message_id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL))
      AND (taken_by IS NOT NULL AND (dedupe_id IS NULL OR starts_with(dedupe_id, 'link:')
                                     OR sent_at < statement_timestamp() - interval '30 days')
           OR starts_with(name, '@'))
), unwatched AS (
    DELETE FROM pgqueue_event_wait WHERE message_id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL))
), restarted AS (
    UPDATE pgqueue_message m
    SET state = 'ready',
        payload = given::jsonb,
        progress = NULL,
        expires_at = NULL,
        failures = 0,
        lost = 0,
        metadata = m.metadata || jsonb_build_object('continued', coalesce(pgqueue_number_v1(m.metadata ->> 'continued'), 0) + 1),
        governed =
-- include: governed_anew
        ,
        worker_id = NULL,
        lease_until = NULL
-- include: to_be_changed
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, NULL AS fault
), changed AS (
    SELECT * FROM restarted
    UNION ALL
    SELECT id, channel, key, governed, NULL, state, NULL FROM cleaning
),
-- include: changed_or_cancelled

-- name: retry
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[],
                %(errors)s::text[], %(delays)s::interval[], %(started)s::bigint[], %(anew)s::boolean[])
        AS e (message, fence, holder, error, delay, started_after, anew)
),
-- include: mine
, changed AS (
    UPDATE pgqueue_message m
    SET state = CASE WHEN delay > interval '0' THEN 'scheduled' ELSE 'ready' END,
        run_at = statement_timestamp() + least(delay, interval '100 years'),
        failures =
-- include: one_more_failure_anew
        ,
        errors =
-- include: errors_with_room
                 || (error::jsonb || jsonb_build_object('at', statement_timestamp())),
        started_at =
-- include: when_it_started
        ,
        governed =
-- include: governed_anew
        ,
        expires_at =
-- include: expires_if_not_begun
        ,
        worker_id = NULL,
        lease_until = NULL
-- include: to_be_changed
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, 'failed' AS fault
),
-- include: changed_or_cancelled

-- name: bury
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[],
                %(errors)s::text[], %(started)s::bigint[], %(anew)s::boolean[])
        AS e (message, fence, holder, error, started_after, anew)
),
-- include: mine
, changed AS (
    UPDATE pgqueue_message m
    SET state = 'dead',
        failures =
-- include: one_more_failure_anew
        ,
        errors =
-- include: errors_with_room
                 || (error::jsonb || jsonb_build_object('at', statement_timestamp())),
        started_at =
-- include: when_it_started
        ,
        governed =
-- include: governed_anew
        ,
        worker_id = NULL,
        lease_until = NULL
-- include: to_be_changed
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, 'failed' AS fault
),
-- include: changed_or_cancelled

-- name: bury_unreadable
-- Each message becomes a dead letter whose error names the unreadable values. Its times are moved to the nearest
-- readable times. A request to cancel is dropped: history refuses an unreadable row. No run began, so that no circuit
-- breaker counts a failure.
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[], %(errors)s::text[])
        AS e (message, fence, holder, error)
),
-- include: mine
, changed AS (
    UPDATE pgqueue_message m
    SET state = 'dead',
        failures =
-- include: one_more_failure
        ,
        errors =
-- include: errors_with_room
                 || (error::jsonb || jsonb_build_object('at', statement_timestamp())),
        run_at = greatest(least(run_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
        created_at = greatest(least(created_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
        expires_at = NULL,
        started_at = NULL,
        cancel_requested_at = NULL,
        governed =
-- include: governed_anew
        ,
        worker_id = NULL,
        lease_until = NULL
    FROM ended
    WHERE m.id = ANY (ARRAY(SELECT id FROM mine))
      AND m.id = ended.message AND m.attempt = ended.fence AND m.worker_id = ended.holder
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, NULL AS fault
), became AS (
    SELECT id, channel, key, governed, flow_id, state AS word, fault FROM changed
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM became

-- name: defer
-- A hand-back is no failure: no counter changes. `counted` has the reason and the number of hand-backs.
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[], %(delays)s::interval[],
                %(progress)s::text[], %(counted)s::text[])
        AS e (message, fence, holder, delay, noted, counted)
),
-- include: mine
, changed AS (
    UPDATE pgqueue_message m
    SET state = CASE WHEN delay > interval '0' THEN 'scheduled' ELSE 'ready' END,
        run_at = CASE WHEN delay > interval '0' THEN statement_timestamp() + least(delay, interval '100 years')
                      ELSE run_at END,
        progress = coalesce(noted::jsonb, progress),
        metadata = CASE WHEN counted IS NULL THEN metadata
                        WHEN counted = 'null' THEN
-- include: not_handed_back
                        ELSE metadata || jsonb_build_object('handed_back', counted::jsonb) END,
        governed =
-- include: governed_anew
        ,
        expires_at =
-- include: expires_if_not_begun
        ,
        worker_id = NULL,
        lease_until = NULL
-- include: to_be_changed
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, NULL AS fault
),
-- include: changed_or_cancelled

-- name: pause
SELECT pgqueue_work_pause_v1(%(names)s::text[], %(delays)s::interval[])

-- name: pause_lanes
-- The lane is throttled until the end, so that the router wakes it then, and the workers that wait with it. A row is made
-- for a free lane, too: claims of free lanes look for it (`shared.paused_lanes`).
INSERT INTO pgqueue_lane AS lane (channel, key, state, turn_at, tat, wake_at, paused_until)
SELECT channel, key, 'throttled', statement_timestamp(), 'epoch', until, until
FROM (SELECT channel, key, statement_timestamp() + least(delay, interval '100 years') AS until
      FROM unnest(%(channels)s::text[], %(keys)s::text[], %(delays)s::interval[]) AS p (channel, key, delay)) paused
ORDER BY channel COLLATE "C", key COLLATE "C"
ON CONFLICT (channel, key) DO UPDATE
SET state = 'throttled',
    wake_at = greatest(lane.wake_at, excluded.wake_at),
    paused_until = greatest(lane.paused_until, excluded.paused_until)

-- name: pause_tasks
INSERT INTO pgqueue_task_pause AS pause (task, until)
SELECT task, statement_timestamp() + least(delay, interval '100 years')
FROM unnest(%(tasks)s::text[], %(delays)s::interval[]) AS p (task, delay)
ORDER BY task COLLATE "C"
ON CONFLICT (task) DO UPDATE SET until = greatest(pause.until, excluded.until)

-- name: finish
-- End a message with the outcome that its task asked for: discarded or cancelled.
WITH ended AS MATERIALIZED (
-- include: each_once
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[],
                %(errors)s::text[], %(outcomes)s::text[], %(started)s::bigint[])
        AS e (message, fence, holder, error, outcome, started_after)
),
-- include: mine
, done AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM mine)) RETURNING *
), noted AS (
    SELECT done.id, ended.outcome,
-- include: when_it_started
           AS started_at,
           CASE WHEN error IS NULL THEN errors ELSE
-- include: errors_with_room
                || (error::jsonb || jsonb_build_object('at', statement_timestamp())) END AS errors
    FROM done JOIN ended
        ON ended.message = done.id AND ended.fence = done.attempt AND ended.holder = done.worker_id
), kept AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome, steps)
    SELECT id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
           worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, noted.errors,
           claimed_at, cancel_requested_at, parent_id, flow_id, created_at, noted.started_at, noted.outcome,
           pgqueue_take_steps_v1(id, channel, NULL)
    FROM done JOIN noted USING (id)
), became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM done JOIN noted USING (id)
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM done
