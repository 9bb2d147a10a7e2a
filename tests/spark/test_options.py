"""Options are right, or refused with their name and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pgqueue.arrow.options import read_options
from pgqueue.spark import InvalidOption


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs the option table. There are messages, history"),
        ({"table": "histroy"}, "no table 'histroy'. Did you mean 'history'?"),
        ({"table": "history", "chanel": "a"}, "no option 'chanel'. Did you mean 'channel'?"),
        ({"table": "history", "columns": "id,tsak"}, "no column 'tsak'. Did you mean 'task'?"),
        ({"table": "history", "columns": "id, id"}, "columns names id twice"),
        ({"table": "history", "columns": ""}, "no column ''"),
        ({"table": "history", "state": "ready"}, "The table history takes no option state"),
        ({"table": "workers", "channel": "a"}, "The table workers takes no option channel"),
        ({"table": "history", "channel": "[1]"}, "channel must be a text, or a JSON list of texts"),
        ({"table": "history", "channel": "[a"}, "channel is no JSON list"),
        ({"table": "history", "key": "a\x00b"}, "key: PostgreSQL has no character NUL"),
        ({"table": "history", "key": '["a\\ud800"]'}, "key: .*surrogates not allowed"),
        ({"table": "history", "since": "yesterday"}, "since is 'yesterday'; it must be a time"),
        ({"table": "history", "until": "0001-01-01T00:00+05:00"}, "until is .* it must be a time"),
        (
            {"table": "history", "since": "2026-01-02", "until": "2026-01-02"},
            "must be before until",
        ),
        *[
            ({"table": "history", "numPartitions": each}, "numPartitions is .* from 1 to 64")
            for each in ("0", "65", "-1", "two", "", "1.5", "²", "9" * 5000)
        ],
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        read_options(given)


def test_names_may_be_written_in_any_case() -> None:
    assert read_options({"TABLE": "history", "numpartitions": "3"}).partitions == 3


def test_a_time_without_a_zone_is_in_utc() -> None:
    options = read_options(
        {"table": "history", "since": "2026-01-02", "until": "2026-01-02T03:00+02:00"}
    )

    assert options.since == datetime(2026, 1, 2, tzinfo=UTC)
    assert options.until == datetime(2026, 1, 2, 1, tzinfo=UTC)


def test_a_list_may_be_empty_or_have_brackets_in_it() -> None:
    [channel, key] = read_options({"table": "history", "channel": "[]", "key": '["[a]"]'}).filters

    assert (channel.values, key.values) == ([], ["[a]"])
