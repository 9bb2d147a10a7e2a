"""`manage.py pgqueue_group make` and `run`, beside what handlers declare."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from pgqueue import consumer, publish
from pgqueue.events import consumers, groups
from pgqueue.events.consumers import Consumer
from pgqueue.management.commands import pgqueue_group
from pgqueue.models import Cursor


@pytest.fixture(autouse=True)
def _no_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})


def said(*arguments: str) -> str:
    """Return what the command says."""
    output = StringIO()
    call_command("pgqueue_group", *arguments, stdout=output)
    return output.getvalue().strip()


def positions() -> list[Any]:
    return list(Cursor.objects.order_by("partition").values_list("position", flat=True))


def test_a_group_is_made_as_its_handler_declares() -> None:
    publish("order.paid")
    consumer("billing", partitions=3, start="beginning")(print)

    assert said("make", "billing") == "The group billing has 3 partitions."
    assert positions() == [0, 0, 0]


def test_what_the_command_says_goes_before_what_is_declared() -> None:
    publish("order.paid")
    consumer("billing", partitions=3, start="beginning")(print)

    assert said("make", "billing", "--partitions", "2", "--start", "now").endswith("2 partitions.")
    assert positions() == [1, 1]


def test_a_group_without_a_handler_has_one_partition_from_now_on() -> None:
    publish("order.paid")

    assert said("make", "billing") == "The group billing has 1 partition."
    assert positions() == [1]


def test_a_module_that_can_not_be_imported_is_named_and_needs_no_import_for_a_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said("make", "billing")

    def fails(name: str) -> None:
        raise SyntaxError("an odd quote")

    monkeypatch.setattr(pgqueue_group, "find_consumer", fails)

    with pytest.raises(CommandError, match="SyntaxError: an odd quote"):
        said("resume", "billing")
    assert said("--database", "default", "resume", "billing") == "Resumed 0 partitions."


@pytest.mark.django_db(databases=["default", "second"])
@pytest.mark.parametrize(
    "words", [("make", "billing"), ("reset", "billing", "0"), ("resume", "billing")]
)
def test_a_group_is_in_the_database_that_its_handler_declares(words: tuple[str, ...]) -> None:
    consumer("billing", database="second")(print)
    groups.make("billing", start="beginning", database="second")

    said(*words)

    assert Cursor.objects.using("second").filter(group="billing").exists()
    assert not Cursor.objects.exists()


@pytest.mark.parametrize(
    ("words", "expected"), [(("run",), "default"), (("--database", "second", "run"), "second")]
)
def test_a_reader_reads_the_log_of_the_given_database(
    words: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer("billing")(print)

    def none_of(handler: Consumer) -> Any:
        raise CommandError(f"no reader in {handler.alias}")

    monkeypatch.setattr(pgqueue_group, "reader_of", none_of)

    with pytest.raises(CommandError, match=f"no reader in {expected}"):
        said(*words, "billing")


def test_running_one_without_a_handler_says_where_it_was_looked_for() -> None:
    consumer("mails")(print)

    with pytest.raises(CommandError, match=r"tasks and events of your apps.*are: mails\."):
        said("run", "billing")
