-- End messages that do not run, whatever their state, and write them to history: what operators' verbs do. Whoever may
-- not write to history itself does no more than this.
CREATE FUNCTION pgqueue_end_v1(ids bigint[], how text)
RETURNS TABLE (id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    IF NOT has_table_privilege('pgqueue_history'::regclass, 'INSERT') THEN
        RETURN QUERY SELECT e.id, e.channel, e.key, e.governed, e.flow_id, e.outcome FROM pgqueue_operate_end_v1($1, $2) e;
        RETURN;
    END IF;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM pgqueue_message m WHERE m.id = ANY ($1) AND m.state <> 'running' RETURNING m.*
    ), kept AS (
        INSERT INTO pgqueue_history (
            id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
            worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
            claimed_at, cancel_requested_at, parent_id, flow_id, created_at, started_at, outcome)
        SELECT
            id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
            worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
            claimed_at, cancel_requested_at, parent_id, flow_id, created_at, started_at, $2
        FROM gone
    )
    SELECT g.id, g.channel, g.key, g.governed, g.flow_id, $2 FROM gone g;
END $$;
