ALTER TABLE pgqueue_staged DROP CONSTRAINT pgqueue_staged_weight;
