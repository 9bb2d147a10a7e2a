-- As in 0007_pipeline.
ALTER TABLE pgqueue_staged
    ADD CONSTRAINT pgqueue_staged_weight
    CHECK (weight BETWEEN 1 AND 100);
