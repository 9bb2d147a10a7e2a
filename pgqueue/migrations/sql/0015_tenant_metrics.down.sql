ALTER TABLE pgqueue_tally DROP CONSTRAINT pgqueue_tally_names;
