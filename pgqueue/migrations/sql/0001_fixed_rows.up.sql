-- Tables whose rows are made here, and stay.

-- What one session at a time may do: it locks the row. An advisory lock would be anybody's who may log in.
CREATE TABLE pgqueue_lock (name text PRIMARY KEY);
INSERT INTO pgqueue_lock (name) VALUES ('route'), ('sequence');

-- Which database this is, for what is remembered outside of it. A copy by CREATE DATABASE, by a dump or by a base backup
-- has the same row: PostgreSQL's own number of the cluster and of the database tell it apart (engine/identity).
CREATE TABLE pgqueue_identity (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    id uuid NOT NULL DEFAULT gen_random_uuid());
INSERT INTO pgqueue_identity DEFAULT VALUES;
