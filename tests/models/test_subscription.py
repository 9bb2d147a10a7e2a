"""What programs do with a subscription's row, while workers write to it, too."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pgqueue.events import subscriptions
from pgqueue.exceptions import InvalidFilter
from pgqueue.models import Subscription

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
A_STEP = {"position": 7, "follows": True, "error": "it failed", "seen_at": None}
"""What a worker writes."""


def stored(**options: Any) -> Subscription:
    given = {"task": "tests.jobs.add", "topics": ["order.*"], **options}
    return subscriptions.create("thanks", **given)


class TestSaving:
    def test_leaves_where_a_worker_has_moved_it_meanwhile(self) -> None:
        row = stored()
        Subscription.objects.update(**A_STEP)

        row.ordered = True
        row.save()

        found = Subscription.objects.get()
        assert {name: getattr(found, name) for name in A_STEP} == A_STEP
        assert found.ordered

    def test_compiles_what_it_wants(self) -> None:
        row = stored(where={"total__gte": 100})

        row.topics, row.where = ["order.paid"], {"country": "DE"}
        row.save(update_fields=["topics", "where"])

        found = Subscription.objects.get()
        assert (found.exact, found.regex, found.eq_value) == (["order.paid"], "", "DE")

    def test_refuses_what_can_not_be(self) -> None:
        row = stored()

        row.topics = ["order..paid"]

        with pytest.raises(InvalidFilter, match=r"order\.\.paid"):
            row.save()

    def test_writes_of_one_that_code_declares_only_its_pause(self) -> None:
        row = stored()
        row.declared = True
        Subscription.objects.update(declared=True, topics=["stock.*"], regex="^stock", key="{key}")

        row.paused, row.topics = True, ["mail.*"]
        row.save()

        found = Subscription.objects.get()
        assert (found.paused, found.topics, found.regex, found.key) == (
            True,
            ["stock.*"],
            "^stock",
            "{key}",
        )

    def test_of_other_fields_leaves_what_a_worker_has_compiled(self) -> None:
        row = stored()
        Subscription.objects.update(topics=["stock.*"], regex="^stock")

        row.paused = True
        row.save(update_fields=["paused"])

        assert Subscription.objects.values_list("topics", "regex").get() == (["stock.*"], "^stock")


class TestExpiry:
    def test_begins_anew_when_it_is_saved(self) -> None:
        row = stored(expires_after=60)

        row.expires_after = HOUR
        row.save(update_fields=["expires_after"])

        expires_at = Subscription.objects.get().expires_at
        assert expires_at
        assert timedelta(0) <= timezone.now() + HOUR - expires_at < timedelta(minutes=1)

    def test_ends_with_its_option(self) -> None:
        row = stored(expires_after=60)

        row.expires_after = None
        row.save()

        assert Subscription.objects.get().expires_at is None

    def test_is_left_where_it_is_not_saved(self) -> None:
        row = stored(expires_after=60)
        before = Subscription.objects.get().expires_at

        row.paused = True
        row.save(update_fields=["paused"])

        assert Subscription.objects.get().expires_at == before


class TestItsState:
    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"follows": True}, "follows"),
            ({"follows": True, "error": "a gap"}, "follows: a gap"),
            ({"position": 9}, "follows"),
            ({"position": 4}, "catching up, 5 events behind"),
            ({"position": 4, "paused": True}, "paused"),
            ({"position": 4, "paused": True, "error": "DataError: no"}, "paused: DataError: no"),
            ({"follows": True, "declared": True}, "in no worker's code"),
            ({"follows": True, "declared": True, "seen_at": "now"}, "follows"),
        ],
    )
    def test_says_what_it_does(self, columns: dict[str, Any], said: str) -> None:
        if columns.get("seen_at") == "now":
            columns = {**columns, "seen_at": timezone.now()}
        row = Subscription(**{"position": 0, **columns})

        assert row.state(cursor=9, head=9) == said

    def test_says_how_far_the_dispatch_is_behind(self) -> None:
        row = Subscription(position=0, follows=True)

        assert row.state(cursor=5, head=9) == "follows, 4 events behind"
