-- A total is written every ten seconds, as pgqueue_total is: see 0006_statistics.
ALTER TABLE pgqueue_tenant_total SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000
);

-- The values that the tables take, as in 0001_bounds.
ALTER TABLE pgqueue_tally
    ADD CONSTRAINT pgqueue_tally_names
    CHECK (octet_length(tenant) <= 1000);
ALTER TABLE pgqueue_tenant_total
    ADD CONSTRAINT pgqueue_tenant_total_names
    CHECK (octet_length(tenant) BETWEEN 1 AND 1000),
    ADD CONSTRAINT pgqueue_tenant_total_times
    CHECK (counted_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_tenant_total_numbers
    CHECK (succeeded BETWEEN 0 AND 1000000000000000000
           AND failed BETWEEN 0 AND 1000000000000000000
           AND dead BETWEEN 0 AND 1000000000000000000
           AND deferred BETWEEN 0 AND 1000000000000000000
           AND discarded BETWEEN 0 AND 1000000000000000000
           AND cancelled BETWEEN 0 AND 1000000000000000000);
