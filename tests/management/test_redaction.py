"""No command prints what is redacted."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from pgqueue.redaction import MASK
from tests.cards import SECRETS, leave_traces
from tests.management.calling import call

COMMANDS: Sequence[Sequence[str]] = (
    ("pgqueue_list", "--state=dead"),
    ("pgqueue_list", "--state=ended"),
    ("pgqueue_list",),
    ("pgqueue_stats",),
    ("pgqueue_cancel", "--state=ready", "--dry-run"),
    ("pgqueue_replay", "--all", "--dry-run"),
    ("pgqueue_discard", "--all", "--dry-run"),
    ("pgqueue_rerun", "--all", "--dry-run"),
    ("pgqueue_schedule", "list"),
    ("pgqueue_subscription", "list"),
)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_shown_of_any_message(db: None, form: str) -> None:
    ids = leave_traces()

    told = {name: call("pgqueue_show", str(id), f"--format={form}").out for name, id in ids.items()}

    assert not [name for name, text in told.items() if any(each in text for each in SECRETS)]
    assert not [name for name, text in told.items() if MASK not in text]


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_listed(db: None, form: str) -> None:
    leave_traces()

    told = {words: call(*words, f"--format={form}").out for words in COMMANDS}

    assert all(told.values())
    assert not [words for words, text in told.items() if any(each in text for each in SECRETS)]


def test_what_is_not_redacted_is_shown_as_it_is(db: None) -> None:
    ids = leave_traces()

    found = call("pgqueue_show", str(ids["ended"]), "--format=json").json

    assert found["payload"] == {"args": [7, MASK, {"name": "Ada", "email": MASK}], "kwargs": {}}
    assert found["result"] == {"receipt": MASK, "status": "paid", "said": f"charged {MASK}"}
    assert json.dumps(found["errors"]) == "[]"
