from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from pgqueue.conf import read, settings
from pgqueue.options.retries import Delays, Exponential
from pgqueue.states import Outcome

KEY = "c29tZSBieXRlcywgMzIgb2YgdGhlbSwgYXMgYSBrZXk="


def test_nothing_need_be_set() -> None:
    options = read({})

    assert (options.database, options.default_channel, options.threads) == ("default",) * 2 + (8,)
    assert (options.lease, options.heartbeat) == (timedelta(seconds=30), timedelta(seconds=10))
    assert (options.max_attempts, options.backoff) == (20, Exponential())


def test_durations_are_seconds_or_timedeltas() -> None:
    options = read({"LEASE": 6, "GRACE": timedelta(minutes=1), "POLL_INTERVAL": 0.5})

    assert options.heartbeat == timedelta(seconds=2)
    assert options.grace == timedelta(minutes=1)
    assert options.poll_interval == timedelta(seconds=0.5)


def test_messages_are_kept_for_a_month_and_dead_letters_for_three() -> None:
    options = read({})

    assert options.retention == dict.fromkeys(Outcome.values, timedelta(days=30))
    assert options.dead_retention == timedelta(days=90)


def test_messages_may_be_kept_as_long_as_their_outcome_says() -> None:
    one = read({"RETENTION": 3600, "DEAD_RETENTION": timedelta(days=1)})
    some = read({"RETENTION": {"succeeded": 60, "discarded": timedelta(days=365)}})

    assert set(one.retention.values()) == {timedelta(hours=1)}
    assert some.retention == {
        "succeeded": timedelta(minutes=1),
        "discarded": timedelta(days=365),
        "cancelled": timedelta(days=30),
        "expired": timedelta(days=30),
    }


def test_events_are_kept_for_a_month_and_as_long_as_a_group_is_behind() -> None:
    options = read({})
    some = read({"EVENT_RETENTION": 3600, "EVENT_MAX_AGE": timedelta(hours=1)})

    assert (options.event_retention, options.event_max_age) == (timedelta(days=30), None)
    assert some.event_retention == some.event_max_age == timedelta(hours=1)
    assert read({"EVENT_MAX_AGE": None}).event_max_age is None


def test_events_are_fed_by_poll_unless_the_wal_is_to_be_followed() -> None:
    options = read({"REPLICATION_SLOT": "shop_1"})
    by_wal = read({"FEED": "wal", "REPLICATION_SLOT": "shop_1", "PUBLICATION": "Shop's"})

    assert (options.feed, options.fed_by) == ("poll", None)
    assert (by_wal.feed, by_wal.fed_by, by_wal.publication) == ("wal", "shop_1", "Shop's")


def test_a_list_is_a_backoff() -> None:
    assert read({"BACKOFF": [1, timedelta(seconds=5)]}).backoff == Delays((1.0, 5.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"LEASES": 1}, "Did you mean 'LEASE'"),
        ({"lease": 1}, "Did you mean 'LEASE'"),
        ({"COLOUR": 1}, "There are DATABASE"),
        ({"LEASE": 0}, "longer than 0"),
        ({"LEASE": "30"}, "neither seconds nor"),
        ({"LEASE": True}, "neither seconds nor"),
        ({"RETENTION": 0}, "longer than 0"),
        ({"RETENTION": None}, "neither seconds nor"),
        ({"RETENTION": {"succeded": 60}}, "Did you mean 'succeeded'"),
        ({"RETENTION": {"lost": 60}}, "There are succeeded, cancelled"),
        ({"RETENTION": {"expired": -1}}, "longer than 0"),
        ({"DEAD_RETENTION": timedelta(days=36526)}, "as good as for ever"),
        ({"EVENT_RETENTION": None}, "neither seconds nor"),
        ({"EVENT_RETENTION": 0}, "longer than 0"),
        ({"EVENT_MAX_AGE": 0}, "longer than 0"),
        ({"EVENT_MAX_AGE": 3600}, r"EVENT_MAX_AGE.* it must be EVENT_RETENTION \(30 days"),
        ({"EXPORT_BEFORE_DROP": 1}, "must be True or False"),
        ({"THREADS": 0}, "from 1 to 10000"),
        ({"THREADS": 10_001}, "from 1 to 10000"),
        ({"THREADS": 2.5}, "whole number"),
        ({"MAX_ATTEMPTS": True}, "whole number"),
        ({"DATABASE": ""}, "must be a name"),
        ({"BACKOFF": "soon"}, "no backoff"),
        ({"FEED": "logical"}, "one of 'poll', 'wal'"),
        ({"FEED": None}, "one of 'poll', 'wal'"),
        ({"REPLICATION_SLOT": "Shop"}, "small letters"),
        ({"REPLICATION_SLOT": "a" * 64}, "63 bytes"),
        ({"REPLICATION_SLOT": 1}, "must be text"),
        ({"PUBLICATION": ""}, "must be a name"),
        ({"PUBLICATION": "é" * 32}, "63 bytes"),
        ({"RELEASE": 7}, "must be text"),
        ({"RELEASE": "1.0\n"}, "in one line"),
        ({"RELEASE": "a" * 201}, "200 characters"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, object], message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        read(given)


@pytest.mark.parametrize("given", [None, [], "threads"])
def test_settings_that_are_no_dict_are_refused(given: object) -> None:
    with (
        override_settings(PGQUEUE=given),
        pytest.raises(ImproperlyConfigured, match="PGQUEUE = .*must be a dict"),
    ):
        settings()


def test_a_change_of_the_settings_is_seen() -> None:
    with override_settings(PGQUEUE={"THREADS": 3}):
        assert settings().threads == 3

    assert settings().threads == 8


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (KEY, "a list of keys"),
        ([KEY, "short"], "number 2 is no key"),
        ([KEY[:-4]], "number 1 is no key"),
        ([KEY.encode()], "number 1 is no key"),
        ([KEY, KEY], "a key is there twice"),
    ],
)
def test_keys_that_encrypt_are_checked_and_not_shown(value: object, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said) as raised:
        read({"ENCRYPTION_KEYS": value})

    assert KEY[:20] not in str(raised.value)
    assert KEY not in repr(read({"ENCRYPTION_KEYS": [KEY]}))
