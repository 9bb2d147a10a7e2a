-- What Python can't read is refused where it enters, as in 0025.
ALTER TABLE pgqueue_duty
    ADD CONSTRAINT pgqueue_duty_upto
    CHECK (upto BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND failing_since BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_message
    ADD CONSTRAINT pgqueue_message_lengths
    CHECK (lease_for BETWEEN interval '-36525 days' AND interval '36525 days') NOT VALID;
