-- name: history_columns
-- What a message takes with it into history, whichever way it ends.
id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
claimed_at, cancel_requested_at, parent_id, created_at

-- name: into_history
-- Follows "gone AS (DELETE … RETURNING *, … AS outcome)": what ended otherwise than by its run.
kept AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome)
    SELECT
-- include: history_columns
        , started_at, outcome
    FROM gone
)

-- name: errors_with_room
-- The first error and the last nine are kept: "- 1" drops the second.
CASE WHEN jsonb_array_length(errors) < 10 THEN errors ELSE errors - 1 END

-- name: governed_anew
-- Whoever makes a message ready decides anew whether claims have to look at its lane: the policy
-- may be younger than the message. One that was governed stays so: under a policy that is younger than
-- this statement a claim may have counted it, and waits for the bell. The list spares most rows the call.
governed OR ordered OR channel IN (SELECT channel FROM pgqueue_policy WHERE governs) AND pgqueue_is_governed_v1(channel, key)

-- name: told
-- Follows "…, changed AS (… RETURNING channel, key, state, governed)": rings the lanes that claims
-- have to look at, and tells whoever idly waits.
rung AS (
    INSERT INTO pgqueue_bell (channel, key)
    SELECT DISTINCT channel, key FROM changed WHERE governed
    RETURNING channel
), told AS (
    SELECT pgqueue_tell_v1(channel)
    FROM (SELECT channel FROM changed WHERE state = 'ready' UNION SELECT channel FROM rung) s
)

-- name: heard
-- Follows "…, became AS (SELECT id, channel, key, governed, word, fault …)", where the word is a
-- state or an outcome: what ran, or waited, and does so no more. That may make room in a lane;
-- somebody may wait for the message's end, or watch its channel. The fault is why it has to run
-- again, if it was one.
rung AS (
    INSERT INTO pgqueue_bell (channel, key)
    SELECT DISTINCT channel, key FROM became
    WHERE governed OR channel IN (SELECT channel FROM pgqueue_policy WHERE governs)
       -- The snapshot of an atomic task's whole transaction is too old to know.
       OR current_setting('transaction_isolation') <> 'read committed'
    RETURNING channel
), told AS (
    SELECT pgqueue_tell_v1(channel)
    FROM (SELECT channel FROM became WHERE word = 'ready' UNION SELECT channel FROM rung) s
    UNION ALL
    SELECT pgqueue_tell_waiters_v1(id)
    FROM became
    WHERE word NOT IN ('ready', 'scheduled') AND id IN (SELECT message_id FROM pgqueue_waiter)
    UNION ALL
    SELECT CASE WHEN word IN ('ready', 'scheduled') THEN pgqueue_notice_v1(channel, id, 'deferred', fault)
                ELSE pgqueue_notice_v1(channel, id, 'ended', word) END
    FROM became
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
)

-- name: cancelled_as_asked
-- Follows "mine AS (SELECT id, cancel_requested_at …)": whatever else a run ended with, a
-- message that was to be cancelled ends here. One that succeeded never gets here.
gone AS (
    DELETE FROM pgqueue_message
    WHERE id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NOT NULL))
    RETURNING *, 'cancelled' AS outcome
),
-- include: into_history

-- name: leased
-- "UPDATE pgqueue_message m …": what a claim writes. A debounced message gives its dedupe_key up:
-- whoever enqueues the next one must not meet a row that runs, whose settle would wait for him.
--
-- `priority` stays what it is, but has to be named: where nothing is that a generated column depends on,
-- PostgreSQL (until 18 at least) parses that column's expression anew for each row, an eighth of a claim.
    SET state = 'running',
        priority = m.priority,
        attempt = m.attempt + 1,
        worker_id = %(worker_id)s::uuid,
        lease_until = statement_timestamp() + %(lease)s::interval,
        claimed_at = statement_timestamp(),
        dedupe_key = CASE WHEN NOT m.debounced THEN m.dedupe_key END,
        metadata = CASE WHEN m.debounced AND m.dedupe_key IS NOT NULL
                        THEN m.metadata || jsonb_build_object('dedupe_key', m.dedupe_key)
                        ELSE m.metadata END

-- name: claimed
-- What a claim returns, as values.Claim has it, but for who claims.
m.id, m.channel, m.key, m.task, m.payload, m.body, m.metadata, m.options, m.priority, m.run_at,
m.attempt, m.failures, m.lost, m.max_attempts, m.progress, m.ordered, m.created_at, m.claimed_at

-- name: noticed
noticed AS (
    SELECT pgqueue_notice_v1(channel, id, 'started')
    FROM taken
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
)

-- name: head_of_lane
-- Of "… lane (channel, key)": its first ordered message, if that is ready, nothing ordered runs (one
-- that was replayed lies before the one that runs), and no dead one blocks it.
SELECT first.id FROM (
    SELECT m.id, m.state, m.expires_at FROM pgqueue_message m
    WHERE m.channel = lane.channel AND m.key = lane.key AND m.ordered
      AND m.state IN ('held', 'scheduled', 'ready', 'running')
    ORDER BY m.id LIMIT 1) first
WHERE first.state = 'ready'
  AND (first.expires_at IS NULL OR first.expires_at > statement_timestamp())
  -- Counted, where EXISTS would be answered by reading all that runs in the channel.
  AND (SELECT count(*) FROM (
           SELECT FROM pgqueue_message m
           WHERE m.state = 'running' AND m.channel = lane.channel AND m.key = lane.key AND m.ordered
           LIMIT 1) r) = 0
  AND (EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = lane.channel AND c.on_dead = 'skip') OR NOT EXISTS (
      SELECT FROM pgqueue_message m
      WHERE m.channel = lane.channel AND m.key = lane.key AND m.ordered AND m.state = 'dead'
        AND m.id < first.id))

-- name: kept
-- For how long the history of each channel and outcome is kept; channel NULL: of all others.
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
-- A claim that is lost in a crash of the server is only a message that is ready again, so it needs no
-- flush: whoever made it has lost his connection, and his id with it. Behind a pooler he has not, and
-- his claim might be given out again under the same fence.
SELECT CASE WHEN %(is_pooled)s THEN '' ELSE set_config('synchronous_commit', 'off', true) END
