-- Ids of messages from outside that are remembered for themselves, not as the dedupe keys of messages. No channel
-- is named "", so these are apart from those; message_id 0 is no message.

-- name: remember
-- In one order, so that two transactions with several ids do not deadlock. It waits for a transaction that has
-- stored one of them and is not committed.
INSERT INTO pgqueue_dedupe AS d (channel, dedupe_key, message_id, expires_at)
SELECT '', id, 0, statement_timestamp() + %(lasting)s
FROM (SELECT DISTINCT id COLLATE "C" AS id FROM unnest(%(ids)s::text[]) AS given (id)) each
ORDER BY id
ON CONFLICT (channel, dedupe_key) DO UPDATE
SET expires_at = excluded.expires_at
WHERE d.expires_at <= clock_timestamp()
RETURNING dedupe_key
