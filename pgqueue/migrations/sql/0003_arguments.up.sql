-- Checks of the arguments that a caller from SQL gives.

-- Return what a caller gave as a time, or say which of its arguments can't be one.
CREATE FUNCTION pgqueue_as_instant_v1(argument text, value timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF value NOT BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN
        RAISE EXCEPTION '% must be a finite time between the years 1 and 9999, and is %.', argument, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;

-- The same for a duration. An infinite one, as PostgreSQL 17 knows it, is longer than any other.
CREATE FUNCTION pgqueue_as_duration_v1(argument text, value interval) RETURNS interval
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF value NOT BETWEEN interval '-36525 days' AND interval '36525 days' THEN
        RAISE EXCEPTION '% must be a hundred years at most, and is %.', argument, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;

-- The same for text.
CREATE FUNCTION pgqueue_as_name_v1(argument text, value text, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(value) > most THEN
        RAISE EXCEPTION '% may be % bytes long at most, and has %.', argument, most, octet_length(value)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;

-- Return the time that a text says; NULL: it says none. What a JSON document holds may be anything.
CREATE FUNCTION pgqueue_instant_of_v1(said text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN said::timestamptz;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
