-- Workers insert their new counts with each heartbeat, and wait for no other session. A duty sums these counts up by
-- minute, by hour, and for ever.

-- name: add
-- If the connection breaks, the worker does not know whether the batch was committed. It sends it again with the same
-- number.
WITH new AS (
    INSERT INTO pgqueue_tally_batch AS t (source, number, at)
    VALUES (%(source)s, %(batch)s, statement_timestamp())
    ON CONFLICT (source) DO UPDATE SET number = excluded.number, at = excluded.at WHERE t.number < excluded.number
    RETURNING true
)
INSERT INTO pgqueue_tally (at, channel, task, tenant,
-- include: counted
)
SELECT statement_timestamp(), channel, task, tenant, succeeded, failed, dead, deferred, discarded, cancelled, waited, ran,
       waits::bigint[], runs::bigint[], lost, released
FROM unnest(%(channels)s::text[], %(tasks)s::text[], %(tenants)s::text[], %(succeeded)s::bigint[], %(failed)s::bigint[], %(dead)s::bigint[],
            %(deferred)s::bigint[], %(discarded)s::bigint[], %(cancelled)s::bigint[], %(waited)s::float8[],
            %(ran)s::float8[], %(waits)s::text[], %(runs)s::text[], %(lost)s::bigint[], %(released)s::bigint[])
    AS t (channel, task, tenant, succeeded, failed, dead, deferred, discarded, cancelled, waited, ran, waits, runs, lost,
          released)
WHERE EXISTS (SELECT FROM new)

-- name: leave
DELETE FROM pgqueue_tally_batch WHERE source = %(source)s

-- name: sums
-- The sum of each column over several rows.
-- include: outcomes
,
sum(waited) AS waited, sum(ran) AS ran,
-- include: buckets_of_waits
AS waits,
-- include: buckets_of_runs
AS runs, sum(lost)::bigint AS lost, sum(released)::bigint AS released

-- name: outcomes
sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed, sum(dead)::bigint AS dead,
sum(deferred)::bigint AS deferred, sum(discarded)::bigint AS discarded, sum(cancelled)::bigint AS cancelled

-- name: buckets_of_waits
-- Written out: to unnest the arrays and to put them together again takes ten times as long.
ARRAY[
    sum(waits[1]), sum(waits[2]), sum(waits[3]), sum(waits[4]), sum(waits[5]), sum(waits[6]), sum(waits[7]), sum(waits[8]),
    sum(waits[9]), sum(waits[10]), sum(waits[11]), sum(waits[12]), sum(waits[13]), sum(waits[14]), sum(waits[15]),
    sum(waits[16]), sum(waits[17]), sum(waits[18]), sum(waits[19]), sum(waits[20]), sum(waits[21]), sum(waits[22]),
    sum(waits[23]), sum(waits[24])]::bigint[]

-- name: buckets_of_runs
ARRAY[
    sum(runs[1]), sum(runs[2]), sum(runs[3]), sum(runs[4]), sum(runs[5]), sum(runs[6]), sum(runs[7]), sum(runs[8]),
    sum(runs[9]), sum(runs[10]), sum(runs[11]), sum(runs[12]), sum(runs[13]), sum(runs[14]), sum(runs[15]),
    sum(runs[16]), sum(runs[17]), sum(runs[18]), sum(runs[19]), sum(runs[20]), sum(runs[21]), sum(runs[22]),
    sum(runs[23]), sum(runs[24])]::bigint[]

-- name: counted
succeeded, failed, dead, deferred, discarded, cancelled, waited, ran, waits, runs, lost, released

-- name: both
-- The assignments of "ON CONFLICT … DO UPDATE SET".
succeeded = t.succeeded + excluded.succeeded,
failed = t.failed + excluded.failed,
dead = t.dead + excluded.dead,
deferred = t.deferred + excluded.deferred,
discarded = t.discarded + excluded.discarded,
cancelled = t.cancelled + excluded.cancelled,
waited = t.waited + excluded.waited,
ran = t.ran + excluded.ran,
lost = t.lost + excluded.lost,
released = t.released + excluded.released,
waits = ARRAY(SELECT a + b FROM unnest(t.waits, excluded.waits) WITH ORDINALITY AS u (a, b, n) ORDER BY n),
runs = ARRAY(SELECT a + b FROM unnest(t.runs, excluded.runs) WITH ORDINALITY AS u (a, b, n) ORDER BY n)

-- name: fold
-- One statement moves the counts. So a query that reads totals and tallies together counts each run once.
WITH gone AS MATERIALIZED (
    DELETE FROM pgqueue_tally
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgqueue_tally WHERE
-- include: within
        ORDER BY id LIMIT %(limit)s))
    RETURNING *
), periods AS (
    INSERT INTO pgqueue_statistic AS t (period, at, channel, task,
-- include: counted
    )
    SELECT period, date_trunc(period, at, 'UTC') AS begins, channel, task,
-- include: sums
    FROM gone CROSS JOIN (VALUES ('minute'), ('hour')) AS p (period)
    GROUP BY period, begins, channel, task
    ON CONFLICT (period, at, channel, task) DO UPDATE SET
-- include: both
), totals AS (
    INSERT INTO pgqueue_total AS t (channel, task, counted_at,
-- include: counted
    )
    SELECT channel, task, max(at),
-- include: sums
    FROM gone
    GROUP BY channel, task
    ON CONFLICT (channel, task) DO UPDATE SET counted_at = greatest(t.counted_at, excluded.counted_at),
-- include: both
), known AS MATERIALIZED (
    SELECT tenant FROM pgqueue_tenant_total
), named AS (
    -- A tenant keeps its own total once it has one: else the total of the others could fall.
    SELECT tenant, CASE WHEN is_known OR n <= room THEN tenant ELSE %(other)s END AS name
    FROM (
        SELECT tenant, is_known, row_number() OVER (PARTITION BY is_known ORDER BY tenant) AS n,
               %(tenants)s - (SELECT count(*) FROM known WHERE tenant <> %(other)s) AS room
        FROM (
            SELECT DISTINCT tenant, tenant = %(other)s OR tenant IN (SELECT tenant FROM known) AS is_known
            FROM gone
            WHERE tenant <> '' AND %(tenants)s > 0) seen) numbered
), tenants AS (
    INSERT INTO pgqueue_tenant_total AS t (tenant, counted_at, succeeded, failed, dead, deferred, discarded, cancelled)
    SELECT n.name, max(g.at),
-- include: outcomes
    FROM gone g JOIN named n USING (tenant)
    GROUP BY n.name
    HAVING sum(succeeded + failed + dead + deferred + discarded + cancelled) > 0
    ORDER BY n.name
    ON CONFLICT (tenant) DO UPDATE SET
        counted_at = greatest(t.counted_at, excluded.counted_at),
        succeeded = t.succeeded + excluded.succeeded,
        failed = t.failed + excluded.failed,
        dead = t.dead + excluded.dead,
        deferred = t.deferred + excluded.deferred,
        discarded = t.discarded + excluded.discarded,
        cancelled = t.cancelled + excluded.cancelled
)
SELECT count(*) FROM gone

-- name: forget
DELETE FROM pgqueue_statistic
WHERE (period, at, channel, task) IN (
    SELECT period, at, channel, task FROM pgqueue_statistic
    WHERE period = %(period)s AND at <
-- include: retained_at
      - %(kept)s::interval
    ORDER BY at, channel, task LIMIT %(limit)s)

-- name: over
SELECT ctid::text, period, at, channel, task FROM pgqueue_statistic
WHERE period = %(period)s AND at <
-- include: retained_at
      - %(kept)s::interval
ORDER BY at, channel, task LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: forget_sources
DELETE FROM pgqueue_tally_batch WHERE at <
-- include: retained_at
      - %(kept)s::interval

-- name: sources_over
SELECT ctid::text, source FROM pgqueue_tally_batch
WHERE at <
-- include: retained_at
      - %(kept)s::interval
FOR UPDATE SKIP LOCKED

-- name: forget_totals
DELETE FROM pgqueue_total WHERE counted_at <
-- include: retained_at
      - %(kept)s::interval

-- name: totals_over
SELECT ctid::text, channel, task FROM pgqueue_total
WHERE counted_at <
-- include: retained_at
      - %(kept)s::interval
FOR UPDATE SKIP LOCKED

-- name: forget_tenants
DELETE FROM pgqueue_tenant_total WHERE counted_at <
-- include: retained_at
      - %(kept)s::interval

-- name: tenants_over
SELECT ctid::text, tenant FROM pgqueue_tenant_total
WHERE counted_at <
-- include: retained_at
      - %(kept)s::interval
FOR UPDATE SKIP LOCKED

-- name: tenant_totals
-- The fold decides which new tenants are counted together. So counts of a tenant without a total wait for it.
SELECT tenant,
-- include: outcomes
FROM (
    SELECT tenant, succeeded, failed, dead, deferred, discarded, cancelled FROM pgqueue_tenant_total
    UNION ALL
    SELECT y.tenant, y.succeeded, y.failed, y.dead, y.deferred, y.discarded, y.cancelled
    FROM pgqueue_tally y JOIN pgqueue_tenant_total USING (tenant)) everything
GROUP BY tenant
ORDER BY tenant

-- name: totals
-- The totals, with the counts that are not summed up yet.
SELECT channel, task,
-- include: sums
FROM (
    SELECT channel, task,
-- include: counted
    FROM pgqueue_total
    UNION ALL
    SELECT channel, task,
-- include: counted
    FROM pgqueue_tally) everything
GROUP BY channel, task
ORDER BY channel, task

-- name: recent
-- The recent counts in the table, and the counts that are not summed up yet, by period. The present one is included.
recent AS MATERIALIZED (
    SELECT at, channel, task,
-- include: counted
    FROM pgqueue_statistic
    WHERE period = %(period)s AND at > statement_timestamp() - %(span)s::interval
    UNION ALL
    SELECT date_trunc(%(period)s, at, 'UTC'), channel, task,
-- include: counted
    FROM pgqueue_tally
)

-- name: over_time
WITH
-- include: recent
SELECT at, sum(succeeded)::bigint, sum(failed)::bigint, sum(dead)::bigint, sum(waited), sum(ran),
       sum(succeeded + failed + dead + deferred + discarded + cancelled)::bigint
FROM recent
WHERE (%(channel)s::text IS NULL OR channel = %(channel)s) AND at > statement_timestamp() - %(span)s::interval
GROUP BY at
ORDER BY at

-- name: by_task
-- The channels and tasks with the most runs.
WITH
-- include: recent
SELECT channel, task,
-- include: sums
FROM recent
WHERE (%(channel)s::text IS NULL OR channel = %(channel)s) AND at > statement_timestamp() - %(span)s::interval
GROUP BY channel, task
ORDER BY sum(succeeded + failed + dead + deferred + discarded + cancelled) DESC, channel, task
LIMIT %(limit)s
