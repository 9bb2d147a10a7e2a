-- name: within_times
-- The first and the last event of a time: events lie nearly, but not quite, in the order of their times. Without
-- OFFSET 0, the planner walks the log from its front to find the first.
SELECT min(position), max(position)
FROM (
    SELECT position FROM pgqueue_event
    WHERE position > %(after)s AND position <= %(upto)s
      AND created_at >= coalesce(%(since)s, '-infinity'::timestamptz)
      AND created_at < coalesce(%(until)s, 'infinity'::timestamptz)
    OFFSET 0) e
