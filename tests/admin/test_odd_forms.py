"""JSON that no form expects: refused beside its field, or taken; never an error of the server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.admin.places import Place, make_world
from tests.admin.test_matrix import CHANGE
from tests.admin.test_schedules import COLUMNS as OF_A_SCHEDULE
from tests.admin.test_subscriptions import COLUMNS as OF_A_SUBSCRIPTION
from tests.admin.test_webhooks import COLUMNS as OF_A_WEBHOOK

pytestmark = pytest.mark.slow

FORMS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "schedule": (OF_A_SCHEDULE, ("args", "kwargs")),
    "subscription": (OF_A_SUBSCRIPTION, ("where", "params")),
    "webhook": (OF_A_WEBHOOK, ("where", "params", "headers", "backoff")),
}
ODD = {
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 50_000,
    "deep and closed": "[" * 5_000 + "]" * 5_000,
    "NUL": r'{"a": "\u0000"}',
    "NUL in a name": r'{"\u0000": 1}',
    "half a pair": r'{"a": "\ud800"}',
    "half a pair in a name": r'{"\ud800": 1}',
    "infinite": '{"a": 1e999}',
    "NaN": '{"a": NaN}',
    "long number": '{"a": ' + "9" * 5_000 + "}",
    "no object": "7",
    "a list of lists": "[[1], [2]]",
    "nothing": "",
    "raw NUL": '{"a": "\x00"}',
}


@pytest.mark.parametrize(
    ("model", "name"), [(model, name) for model, (_, names) in FORMS.items() for name in names]
)
def test_it_is_no_error_of_the_server(admin_client: Client, model: str, name: str) -> None:
    for case, odd in ODD.items():
        columns = {"params": "{}", **FORMS[model][0], name: odd}

        answer: Any = admin_client.post(f"/admin/pgqueue/{model}/add/", columns)

        assert answer.status_code in (200, 302), case


LONG = {
    *("args", "kwargs", "where", "params", "headers", "backoff"),  # JSON
    *("topics", "predicate", "arguments", "field_value"),
}
"""The fields of forms that may take several lines."""


def test_only_long_texts_have_a_text_area(admin_client: Client) -> None:
    world = make_world()
    edited = ("channel", "policy", "schedule", "group", "subscription", "webhook")
    places = [
        *(Place(model, pattern) for model in edited for pattern in ("add/", CHANGE)),
        *(
            Place("durable message", f"<path:object_id>/{verb}/")
            for verb in ("signal", "fork", "rerun")
        ),
    ]

    found = set()
    for place in places:
        page = admin_client.get(world.path(place).replace("durable message", "message"))
        assert page.status_code == 200, place
        found |= set(re.findall(r'<textarea name="(\w+)"', page.content.decode()))

    assert found == LONG
