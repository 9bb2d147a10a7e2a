-- Those who publish only insert. Positions are given by the sequencer, in the order of commits.

-- name: publish
SELECT pgqueue_publish_v1(%(topic)s, %(key)s, %(payload)s::jsonb, %(metadata)s::jsonb)

-- name: copy
COPY pgqueue_event_inbox (topic, key, payload, metadata) FROM STDIN

-- name: tell
SELECT pgqueue_tell_readers_v1()
