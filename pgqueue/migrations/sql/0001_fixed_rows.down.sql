DROP TABLE pgqueue_identity;
DROP TABLE pgqueue_lock;
