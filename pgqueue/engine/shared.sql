-- name: history_columns
-- The columns that history takes from a message, with any outcome.
id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
claimed_at, cancel_requested_at, parent_id, flow_id, created_at

-- name: into_history
-- Store messages in history that did not end by a run's settle. It follows
-- "gone AS (DELETE … RETURNING *, … AS outcome)".
kept AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome, steps)
    SELECT
-- include: history_columns
        , started_at, outcome, pgqueue_take_steps_v1(id, channel, NULL)
    FROM gone
)

-- name: errors_with_room
-- Keep the first error and the last nine ones: "- 1" drops the second one.
CASE WHEN jsonb_typeof(errors) <> 'array' THEN '[]' WHEN jsonb_array_length(errors) < 10 THEN errors ELSE errors - 1 END

-- name: not_handed_back
-- Metadata without the count of hand-backs. A producer's own key of this name stays.
CASE WHEN metadata #> '{handed_back,times}' IS NULL THEN metadata ELSE metadata - 'handed_back' END

-- name: governed_anew
-- Each statement that makes a message ready decides again whether a policy governs its lane: the policy
-- may be newer than the message. A governed message stays governed: under a policy that is newer than
-- this statement, a claim may have counted it and may wait for the bell. The list of policed channels
-- saves most rows the function call.
governed OR ordered OR channel IN (SELECT channel FROM pgqueue_policy WHERE governs) AND pgqueue_is_governed_v1(channel, key)

-- name: told
-- Insert bells for governed lanes, and notify idle workers of the channels that have ready messages. It follows
-- "…, changed AS (… RETURNING channel, key, state, governed)".
rung AS (
    INSERT INTO pgqueue_bell (channel, key)
    SELECT DISTINCT channel, key FROM changed WHERE governed
    RETURNING channel
), told AS (
    SELECT pgqueue_tell_v1(channel)
    FROM (SELECT channel FROM changed WHERE state = 'ready' UNION SELECT channel FROM rung) s
)

-- name: heard
-- Announce messages that left their state. It follows
-- "…, became AS (SELECT id, channel, key, governed, flow_id, word, fault …)": `word` is their new state or their
-- outcome, `fault` the reason why they must run again, or NULL. The change may make room in a lane, or let other
-- messages of a flow go on: then a bell is inserted. It may also end a wait for the result, or be a notice for programs
-- that watch the channel. A failure counts for the breakers of its channel and its key, and a probe's success closes one.
-- include: rung_by_ends
, failed_members AS (
    INSERT INTO pgqueue_failed_member (message_id, flow_id)
    SELECT id, flow_id FROM became
    WHERE flow_id IS NOT NULL AND word IN ('cancelled', 'discarded', 'expired')
), told AS (
    SELECT pgqueue_tell_v1(channel)
    FROM (SELECT channel FROM became WHERE word = 'ready' UNION SELECT channel FROM rung) s
    UNION ALL
    SELECT CASE WHEN word IN ('ready', 'scheduled') THEN pgqueue_notice_v1(channel, id, 'deferred', fault)
                ELSE pgqueue_notice_v1(channel, id, 'ended', word) END
    FROM became
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
    UNION ALL
    (SELECT pgqueue_note_failures_v1(channel, key, array_agg(id)) FROM became
     WHERE fault = 'failed' AND channel IN (SELECT channel FROM pgqueue_policy WHERE breaker_failures IS NOT NULL)
     GROUP BY channel, key
     ORDER BY channel COLLATE "C", key COLLATE "C")
    UNION ALL
-- include: waits_and_breakers_ended
)

-- name: success_heard
-- The same for messages that have succeeded, as nearly all do: without what only happens after another end. Each
-- statement that begins costs a settle time, whether it finds a row or not.
-- include: rung_by_ends
, told AS (
    SELECT pgqueue_tell_v1(channel) FROM (SELECT DISTINCT channel FROM rung) s
    UNION ALL
    SELECT pgqueue_notice_v1(channel, id, 'ended', word)
    FROM became
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
    UNION ALL
-- include: waits_and_breakers_ended
)

-- name: rung_by_ends
rung AS (
    INSERT INTO pgqueue_bell (channel, key, ended)
    SELECT DISTINCT channel, key, NULL::bigint[] FROM became
    WHERE governed OR channel IN (SELECT channel FROM pgqueue_policy WHERE governs)
       -- The REPEATABLE READ snapshot of an atomic task's transaction may be older than a policy.
       OR current_setting('transaction_isolation') <> 'read committed'
    UNION ALL
    SELECT channel, NULL, array_agg(id) FROM became
    WHERE flow_id IS NOT NULL AND word NOT IN ('ready', 'scheduled')
    GROUP BY channel
    RETURNING channel
)

-- name: waits_and_breakers_ended
SELECT pgqueue_tell_waiters_v1(id)
FROM became
WHERE word NOT IN ('ready', 'scheduled') AND id IN (SELECT message_id FROM pgqueue_waiter)
UNION ALL
SELECT pgqueue_close_breaker_v1(b.channel, b.key, b.probe_id)
FROM (
    -- A transaction of the user's may have locked a breaker for minutes. Then it stays open, and the next probe closes it.
    SELECT b.channel, b.key, b.probe_id
    FROM pgqueue_breaker b
    WHERE b.probe_id = ANY (ARRAY(SELECT id FROM became WHERE word = 'succeeded'))
    ORDER BY b.channel, b.key
    FOR UPDATE SKIP LOCKED) b

-- name: cancelled_as_asked
-- End the messages with a request to cancel, for any result of their runs but success: the verb for successful runs
-- does not include this. It follows "mine AS (SELECT id, cancel_requested_at …)".
gone AS (
    DELETE FROM pgqueue_message
    WHERE id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NOT NULL))
    RETURNING *, 'cancelled' AS outcome
),
-- include: into_history

-- name: leased
-- The columns that a claim writes: "UPDATE pgqueue_message m …". A debounced message gives up its dedupe_key: the
-- producer of the next message must not conflict with a running row, whose settle would wait for this producer.
--
-- `priority` keeps its value but must be named, since the generated column `rank` depends on it. Otherwise PostgreSQL
-- (up to 18 at least) parses the expression of `rank` again for each row, an eighth of a claim.
    SET state = 'running',
        priority = m.priority,
        -- After the largest number comes 1: the fence only needs a number that differs from the last one.
        attempt = mod(m.attempt, 2147483647) + 1,
        worker_id = %(worker_id)s::uuid,
        lease_until = statement_timestamp() + %(lease)s::interval,
        lease_for = %(lease)s::interval,
        claimed_at = statement_timestamp(),
        dedupe_key = CASE WHEN NOT m.debounced THEN m.dedupe_key END,
        metadata = CASE WHEN m.debounced AND m.dedupe_key IS NOT NULL
                        THEN m.metadata || jsonb_build_object('dedupe_key', m.dedupe_key)
                        ELSE m.metadata END

-- name: claimed
-- The columns that a claim returns: the fields of values.Claim, except worker_id.
m.id, m.channel, m.key, m.task, m.payload, m.body, m.metadata, m.options, m.priority, m.run_at,
m.attempt, m.failures, m.lost, m.max_attempts, m.progress, m.ordered, m.flow_id, m.created_at, m.claimed_at

-- name: noticed
noticed AS (
    SELECT pgqueue_notice_v1(channel, id, 'started')
    FROM taken
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
)

-- name: takes_it
-- A condition on message m: the claimer takes it. Raw messages (without a task) are for consumers, unless their channel
-- names a handler. So workers leave them alone. Nor does it take messages of a task that was told to wait.
m.task <> ALL (ARRAY(SELECT task FROM pgqueue_task_pause WHERE until > statement_timestamp()))
AND (m.task <> '' OR %(takes_raw)s::boolean OR m.channel IN (
    SELECT name FROM pgqueue_channel
    WHERE handler <> ''
      AND handler <> ALL (ARRAY(SELECT task FROM pgqueue_task_pause WHERE until > statement_timestamp()))))

-- name: expires_if_not_begun
-- When message m expires after a run: a durable run whose steps are stored has begun, and does not expire any more.
CASE WHEN m.expires_at IS NOT NULL AND NOT EXISTS (SELECT FROM pgqueue_step s WHERE s.message_id = m.id) THEN m.expires_at END

-- name: is_paused
-- A condition on a row of pgqueue_channel: workers start none of the channel's messages. At its end, a pause is over for
-- each statement that begins later, also before the duty has removed it.
(paused AND (paused_until IS NULL OR paused_until > statement_timestamp()))

-- name: paused_lanes
-- The lanes whose key a task was told to leave alone. A partial index has them: it is empty where no task raises RateLimited.
SELECT channel, key FROM pgqueue_lane WHERE paused_until > statement_timestamp()

-- name: let_through_by_b
-- How many messages the circuit breaker b lets start, under a policy with this `breaker_pause`: none while it is open or
-- its probe runs, and one after that. An end beyond the policy's pause is none: the pause was made shorter, or the
-- server's clock was set back.
CASE WHEN b.open_until IS NULL THEN 1000000
     WHEN b.open_until > statement_timestamp() AND
-- include: is_within_its_pause
          OR EXISTS (SELECT FROM pgqueue_message m
                     WHERE m.id = b.probe_id AND m.attempt = b.probe_attempt AND m.state || '' = 'running') THEN 0
     ELSE 1 END

-- name: is_within_its_pause
-- A condition on the circuit breaker b: its pause ends no later than its policy has it.
b.open_until <= statement_timestamp() + breaker_pause + interval '1 second'

-- name: not_left_out
-- A condition on message m: no claim has failed because of it in the last minute. See `culprits.choosing`.
m.id <> ALL (%(aside)s::bigint[])

-- name: try_to_lease
-- Write the columns of a claim, to find out whether the database refuses them.
UPDATE pgqueue_message m
-- include: leased
WHERE m.id = ANY (%(ids)s::bigint[])

-- name: weight_of_m
-- How many messages message m counts for in limits. Any JSON may be stored in `options`: the claim must not raise.
CASE WHEN jsonb_typeof(m.options -> 'weight') = 'number'
     THEN least(greatest((m.options ->> 'weight')::numeric, 1), 100)::int ELSE 1 END

-- name: size_of_m
-- Columns of message m: its size in a claim, as it is stored, and whether its payload is packed. A packed payload
-- counts as ten times as large: its true size is known only after unpacking.
coalesce(pg_column_size(m.payload), 0)::bigint * CASE WHEN pg_column_compression(m.payload) IS NULL THEN 1 ELSE 10 END
+ coalesce(octet_length(m.body), 0) + coalesce(pg_column_size(m.progress), 0) AS size,
pg_column_compression(m.payload) IS NOT NULL AS is_packed

-- name: fitting
-- The first due messages that fit into the limit of bytes, at least one. It follows "due AS MATERIALIZED (SELECT id,
-- size, is_packed …)". Packed payloads that would fit are measured unpacked. The other messages stay ready; each lane
-- gives its first messages.
fitting AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT id, sum(size) OVER (ROWS UNBOUNDED PRECEDING) - size AS before
        FROM (
            SELECT due.id, CASE WHEN due.is_packed THEN greatest(size, (
                SELECT octet_length(m.payload::text) FROM pgqueue_message m WHERE m.id = due.id)) ELSE size END AS size
            FROM (SELECT id, size, is_packed, sum(size) OVER (ROWS UNBOUNDED PRECEDING) - size AS before FROM due) due
            WHERE before < %(size)s) measured) summed
    WHERE before < %(size)s
)

-- name: head_of_lane
-- The first ordered message of "… lane (channel, key)". It must be ready, and no dead letter may block the lane. No
-- other ordered message of the lane may run: a replayed message may lie before a running one.
SELECT first.id FROM (
    SELECT m.id, m.state, m.expires_at FROM pgqueue_message m
    WHERE m.channel = lane.channel AND m.key = lane.key AND m.ordered
      AND m.state IN ('held', 'scheduled', 'ready', 'running')
    ORDER BY m.id LIMIT 1) first
WHERE first.state = 'ready'
  AND (first.expires_at IS NULL OR first.expires_at > statement_timestamp())
  -- A count: for EXISTS, the planner may read all running messages of the channel.
  AND (SELECT count(*) FROM (
           SELECT FROM pgqueue_message m
           WHERE m.state = 'running' AND m.channel = lane.channel AND m.key = lane.key AND m.ordered
           LIMIT 1) r) = 0
  AND (EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = lane.channel AND c.on_dead = 'skip') OR NOT EXISTS (
      SELECT FROM pgqueue_message m
      WHERE m.channel = lane.channel AND m.key = lane.key AND m.ordered AND m.state = 'dead'
        AND m.id < first.id))

-- name: has_urgent
-- A condition on a row of pgqueue_channel: messages of the channel may be urgent.
(urgent_first OR age_after IS NOT NULL)

-- name: is_parallel_in_lane
m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = lane.channel AND m.key = lane.key

-- name: ranks_of_lane
-- Each rank in "… lane (channel, key)", and the earliest time of its messages, by one probe for each rank. It is the body
-- of the recursive CTE "ranks".
(SELECT first.* FROM lane CROSS JOIN LATERAL (
    SELECT m.rank, m.run_at FROM pgqueue_message m
    WHERE
-- include: is_parallel_in_lane
    ORDER BY m.rank, m.run_at LIMIT 1) first)
UNION ALL
SELECT next.* FROM ranks CROSS JOIN lane CROSS JOIN LATERAL (
    SELECT m.rank, m.run_at FROM pgqueue_message m
    WHERE m.rank > ranks.rank AND
-- include: is_parallel_in_lane
    ORDER BY m.rank, m.run_at LIMIT 1) next

-- name: urgency_marked
-- Store from when on lanes have urgent messages; NULL: they have none. It follows the statement that locked or marked
-- the lanes: this one sees each message whose bell was taken.
UPDATE pgqueue_lane marked
SET urgent_at = found.urgent_at
FROM (
    SELECT k.channel, k.key, (
        WITH RECURSIVE lane AS (
            SELECT k.channel, k.key, c.urgent_first, c.age_after
            FROM pgqueue_channel c WHERE c.name = k.channel
        ), ranks AS (
-- include: ranks_of_lane
        )
        -- least() ignores NULL.
        SELECT nullif(least(
            timestamptz '9999-12-28 00:00Z',
            (SELECT m.run_at FROM pgqueue_message m
             WHERE lane.urgent_first AND m.rank <= -50 AND
-- include: is_parallel_in_lane
             ORDER BY m.rank, m.run_at LIMIT 1),
            CASE WHEN lane.age_after IS NOT NULL THEN (SELECT min(run_at) FROM ranks) + lane.age_after END,
            (SELECT CASE WHEN lane.urgent_first AND m.rank <= -50 THEN m.run_at ELSE m.run_at + lane.age_after END
             FROM pgqueue_message m
             WHERE m.id = (
-- include: head_of_lane
             ))), timestamptz '9999-12-28 00:00Z')
        FROM lane) AS urgent_at
    FROM unnest(%(channels)s::text[], %(keys)s::text[]) AS k (channel, key)) found
WHERE marked.channel = found.channel AND marked.key = found.key AND marked.urgent_at IS DISTINCT FROM found.urgent_at

-- name: kept
-- The retention of history by channel and outcome; channel NULL: all other channels.
kept AS MATERIALIZED (
    SELECT NULL COLLATE "C" AS channel, outcome, keep
    FROM unnest(%(outcomes)s::text[], %(keeps)s::interval[]) AS k (outcome, keep)
    UNION ALL
    SELECT c.name, own.outcome, coalesce(own.keep, c.retention)
    FROM pgqueue_channel c
    CROSS JOIN LATERAL (VALUES
        ('succeeded', c.retention_succeeded), ('cancelled', c.retention_cancelled),
        ('discarded', c.retention_discarded), ('expired', c.retention_expired)) own (outcome, keep)
    WHERE coalesce(own.keep, c.retention) IS NOT NULL
)

-- name: unflushed
-- A claim needs no flush: if the server crashes and loses the claim, the message is only ready again. The worker has
-- lost its connection, and takes a new worker_id with the next one. Behind a pooler it keeps both, and the message
-- might be claimed again under the same fence. So there the claim is flushed.
--
-- A router needs none, either: a crash that loses its changes restores the bells that it has taken. Its next transaction
-- that is flushed flushes this one before. Behind a pooler the number of its last bell outlives a crash.
SELECT CASE WHEN %(is_pooled)s THEN '' ELSE set_config('synchronous_commit', 'off', true) END

-- name: order_kept
-- Every transaction that locks several lanes must do so in one order, by this statement or the next one. Otherwise two
-- transactions would deadlock.
SELECT count(pgqueue_keep_order_v1(channel, key))
FROM (SELECT DISTINCT ON (pgqueue_bucket_v1(channel, key)) channel, key
      FROM unnest(%(channels)s::text[], %(keys)s::text[]) AS k (channel, key)
      ORDER BY pgqueue_bucket_v1(channel, key), channel, key) sorted

-- name: rooms_kept
SELECT channel, key, pgqueue_room_v1(channel, key)
FROM (SELECT DISTINCT key IS NOT NULL AS is_lane, pgqueue_bucket_v1(channel, key) AS bucket, channel, key
      FROM unnest(%(channels)s::text[], %(keys)s::text[]) AS k (channel, key)
      WHERE channel IN (SELECT channel FROM pgqueue_policy WHERE max_size IS NOT NULL)
      ORDER BY is_lane, bucket, channel, key) sorted

-- name: bounds
-- The last position that retention has removed, and the last position of the log.
SELECT coalesce((SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0) AS floor,
       greatest((SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
                (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0) AS head

-- name: event_waited
-- The seconds for which the event after `c.position` has waited, in a log with the bounds `b`; NULL: there is none. This
-- event may not even have a position yet, if no reader runs. Events below the floor are deleted.
extract(epoch FROM statement_timestamp() - coalesce(
    (SELECT created_at FROM pgqueue_event WHERE position > greatest(c.position, b.floor) ORDER BY position LIMIT 1),
    (SELECT created_at FROM pgqueue_event_inbox ORDER BY id LIMIT 1)))::float8

-- name: exported_event
-- The last event that a target of exports has. A target of another database, or with a position beyond the end of the
-- log, belongs to another log: it counts as 0.
CASE WHEN event_position <= greatest(
    (SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
    (SELECT position FROM pgqueue_log_floor WHERE log = 'event')) AND database =
-- include: identity
    THEN event_position ELSE 0 END

-- name: parts
-- The tables that are, or were, partitions of a log, in the log's schema, which need not be first in the search_path.
-- It follows WITH.
parts AS (
    SELECT n.nspname, log.relname AS log, c.oid, c.relname, i.inhrelid IS NOT NULL AS is_attached,
           coalesce(i.inhdetachpending, false) AS is_pending,
           coalesce(obj_description(c.oid, 'pg_class') = %(mark)s, false) AS is_marked
    FROM pg_class log
    JOIN pg_namespace n ON n.oid = log.relnamespace
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' AND c.relname ~ %(pattern)s
    LEFT JOIN pg_inherits i ON i.inhparent = log.oid AND i.inhrelid = c.oid
    WHERE log.oid = %(table)s::regclass
      AND (%(only)s::text IS NULL OR c.relname = %(only)s::text)
)

-- name: past_parts
-- It precedes "WHERE is_marked OR …". A table that an operator has detached belongs to the operator, and must not have
-- the mark of a drop. So a mark on an attached table is stale, and the table is returned, too.
SELECT nspname, log, relname, is_attached, is_pending, is_attached AND NOT is_pending AND is_marked AS is_stale
FROM parts

-- name: member_word
-- The state of a live message, but "waiting" if it waits for others of its flow. It is a column of a SELECT.
CASE WHEN state = 'held' AND lease_until IS NULL THEN 'waiting' ELSE state END AS word

-- name: is_from_the_future
-- A condition on a lease: its rest is longer than its length, so it began after now. Each statement that
-- grants a lease stores its length in `lease_for`. The server's clock was set back, or a host whose clock is behind took
-- over. A second is left to small corrections.
lease_until > statement_timestamp() + lease_for + interval '1 second'

-- name: retained_at
-- The time by which retention removes. After the clock has jumped, or no worker has run for long, it moves on by at
-- most a day an hour: see `retention.advance`.
least(statement_timestamp(), (SELECT upto + interval '1 day' FROM pgqueue_duty WHERE name = 'retention'))

-- name: within
-- The rows of a `culprits.Part`. "+ 0" leaves the choice of an index to the other conditions.
id + 0 BETWEEN %(first)s::bigint AND %(last)s::bigint AND id <> ALL (%(aside)s::bigint[])

-- name: identity
-- The identity of this database: see the module `identity`.
(SELECT c.system_identifier || '/' || d.oid || '/' || i.id
 FROM pg_control_system() c, pg_database d, pgqueue_identity i
 WHERE d.datname = current_database())
