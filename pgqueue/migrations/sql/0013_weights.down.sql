DROP FUNCTION pgqueue_enqueue;
ALTER FUNCTION pgqueue_enqueue_unweighted RENAME TO pgqueue_enqueue;
