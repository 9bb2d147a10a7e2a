-- Roles with the rights that each part of a queue needs, and no others. The owner of the tables, with CREATEROLE, runs
-- this script, and runs it again after each `migrate`: then the roles have exactly the rights below.
--
-- The roles are groups without a login: GRANT pgqueue_worker TO shop_worker;
--
-- A new table, or a new right on one, goes into the matrix below. tests/engine/test_roles.py does the work of each part
-- in sessions of its role.
--
-- These rights are on the tables of pgqueue alone. Tasks need rights on your own tables, too.
DO $roles$
DECLARE
    groups constant text[] := ARRAY[{producer}, {worker}, {operator}, {reader}];
    place constant text := {schema};
    role text;
    granted record;
BEGIN
    FOREACH role IN ARRAY groups LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        FOR granted IN
            SELECT c.oid::regclass AS name, c.relkind = 'S' AS is_sequence
            FROM pg_class c
            WHERE c.relnamespace = quote_ident(place)::regnamespace AND c.relname ~ '^pgqueue_' AND c.relkind IN ('r', 'p', 'S')
        LOOP
            EXECUTE format('REVOKE ALL ON %s %s FROM %I',
                           CASE WHEN granted.is_sequence THEN 'SEQUENCE' ELSE 'TABLE' END, granted.name, role);
        END LOOP;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place, role);
        FOR granted IN
            -- A function that runs as its owner is for one role, or for one trigger.
            SELECT p.oid::regprocedure AS name, NOT p.prosecdef OR p.proname ~ '^pgqueue_produce_' AND role = groups[1]
                   OR p.proname ~ '^pgqueue_work_' AND role = groups[2]
                   OR p.proname ~ '^pgqueue_operate_' AND role = groups[3] AS is_granted
            FROM pg_proc p
            WHERE p.pronamespace = quote_ident(place)::regnamespace AND p.proname ~ '^pgqueue_'
        LOOP
            EXECUTE format(CASE WHEN granted.is_granted THEN 'GRANT EXECUTE ON FUNCTION %s TO %I'
                                ELSE 'REVOKE ALL ON FUNCTION %s FROM %I' END, granted.name, role);
        END LOOP;
    END LOOP;

    -- a: INSERT, r: SELECT, w: UPDATE, d: DELETE, as PostgreSQL abbreviates them.
    FOR granted IN
        SELECT format('%I.%I', place, 'pgqueue_' || m.name) AS name, g.role, g.letters
        FROM (VALUES
            --              producer  worker  operator  reader
            ('message',     '',       'arwd', 'r',      'r'),
            ('history',     '',       'ard',  'r',      'r'),
            ('bell',        '',       'ard',  'ar',     'r'),
            ('step',        '',       'arwd', 'arwd',   'r'),
            ('signal',      '',       'arwd', 'arw',    'r'),
            ('task_pause',  '',       'arwd', 'rd',     'r'),
            ('run_log',     '',       'arwd', 'r',      'r'),
            ('tenant_total', '',      'arwd', 'r',      'r'),
            ('event_wait',  '',       'arwd', 'rd',     'r'),
            ('lock',        '',       'rw',   '',       'r'),
            ('lane',        '',       'arwd', 'r',      'r'),
            ('gate',        '',       'arw',  'ar',     'r'),
            ('breaker',     '',       'arwd', 'rwd',    'r'),
            ('flow',        '',       'arwd', 'ar',     'r'),
            ('dependency',  '',       'ard',  'ar',     'r'),
            ('blocked',     '',       'arwd', 'ar',     'r'),
            ('failed_member', '',     'ard',  'ar',     'r'),
            ('dedupe',      '',       'arwd', 'arw',    'r'),
            ('waiter',      '',       'arwd', 'arwd',   'r'),
            ('worker',      '',       'arwd', 'r',      'r'),
            ('duty',        '',       'arw',  'r',      'r'),
            ('channel',     'r',      'r',    'arwd',   'r'),
            ('policy',      'r',      'r',    'arwd',   'r'),
            ('schedule',    '',       'arwd', 'arwd',   'r'),
            ('operation',   '',       'r',    'ard',    'r'),
            ('purged',      '',       'arwd', '',       'r'),
            ('log_floor',   '',       'arw',  'r',      'r'),
            ('identity',    '',       'r',    'r',      'r'),
            ('event_inbox', '',       'ard',  'r',      'r'),
            ('event',       '',       'ar',   'r',      'r'),
            ('append_lock', '',       'arwd', 'arw',    'r'),
            ('reader',      '',       'arwd', 'r',      'r'),
            ('group',       '',       'ard',  'ard',    'r'),
            ('cursor',      '',       'arwd', 'arwd',   'r'),
            ('subscription', '',      'arwd', 'arwd',   'r'),
            ('webhook',     '',       'rw',   'arwd',   ''),
            ('export',      '',       'r',    'ard',    'r'),
            ('staged',      '',       'rd',   'ard',    ''),
            ('write',       '',       'ard',  'ar',     'r'),
            ('backfill',    '',       'r',    'arw',    'r'),
            ('tally',       '',       'ard',  'r',      'r'),
            ('tally_batch', '',       'arwd', 'r',      'r'),
            ('statistic',   '',       'arwd', 'r',      'r'),
            ('total',       '',       'arwd', 'r',      'r')
        ) AS m (name, producer, worker, operator, reader)
        CROSS JOIN LATERAL unnest(groups, ARRAY[m.producer, m.worker, m.operator, m.reader]) AS g (role, letters)
        WHERE g.letters <> ''
    LOOP
        EXECUTE format('GRANT %s ON %s TO %I', (
            SELECT string_agg(l.word, ', ')
            FROM (VALUES ('a', 'INSERT'), ('r', 'SELECT'), ('w', 'UPDATE'), ('d', 'DELETE')) AS l (letter, word)
            WHERE strpos(granted.letters, l.letter) > 0), granted.name, granted.role);
    END LOOP;

    -- Some statements read a stretch of a partition by the partition's name. A later partition gets the rights of its
    -- table.
    FOR granted IN
        SELECT c.oid::regclass AS name, g.role
        FROM pg_class c CROSS JOIN unnest(groups[2:]) AS g (role)
        WHERE c.relnamespace = quote_ident(place)::regnamespace AND c.relkind = 'r'
          AND c.relname ~ '^pgqueue_(history|event)_[0-9]+$'
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO %I', granted.name, granted.role);
    END LOOP;

    -- A producer sees that messages exist, as max_size needs, and nothing of their content. It writes to no table: it
    -- calls functions that run as the owner.
    EXECUTE format('GRANT SELECT (channel, key, state, governed, ordered) ON %I.pgqueue_message TO %I', place, groups[1]);
    -- An operator enqueues, holds, replays and asks for a cancel. It ends messages by a function: only workers write the
    -- columns of runs, and history.
    EXECUTE format('GRANT INSERT (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
                        run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, flow_id, dedupe_key, debounced),
                    UPDATE (task, payload, body, metadata, options, priority, max_attempts, state, run_at, expires_at,
                        lease_until, governed, dedupe_key, debounced, failures, lost, cancel_requested_at)
                    ON %I.pgqueue_message TO %I', place, groups[3]);
    -- An operator publishes events, and changes the log in no other way: workers give the positions.
    EXECUTE format('GRANT INSERT (topic, key, payload, metadata) ON %I.pgqueue_event_inbox TO %I', place, groups[3]);
    -- A reader does not see the credentials for other systems: secrets, headers and URLs.
    EXECUTE format('GRANT SELECT (%s) ON %I.pgqueue_webhook TO %I', (
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
        FROM pg_attribute
        WHERE attrelid = format('%I.pgqueue_webhook', place)::regclass AND attnum > 0 AND NOT attisdropped
          AND attname NOT IN ('secret', 'rotated', 'headers', 'url')), place, groups[4]);

    FOR granted IN
        SELECT c.oid::regclass AS name
        FROM pg_class c
        WHERE c.relnamespace = quote_ident(place)::regnamespace AND c.relname ~ '^pgqueue_' AND c.relkind = 'S'
    LOOP
        EXECUTE format('GRANT USAGE ON SEQUENCE %s TO %I, %I', granted.name, groups[2], groups[3]);
        EXECUTE format('GRANT SELECT ON SEQUENCE %s TO %I, %I, %I', granted.name, groups[2], groups[3], groups[4]);
    END LOOP;

    -- Operators check the SQL conditions of subscriptions as this role, and workers evaluate them as it.
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgqueue_predicates') THEN
        BEGIN
            EXECUTE format('GRANT pgqueue_predicates TO %I, %I', groups[2], groups[3]);
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'Only a superuser can grant pgqueue_predicates: conditions in SQL are off for these roles.';
        END;
    END IF;
END $roles$;
