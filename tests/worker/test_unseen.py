"""Workers that serve channels which were never seen."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from pgqueue import Channel, send
from pgqueue.engine import channels
from pgqueue.models import History
from tests import jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", "--threads", "1", *arguments, verbosity=1)


def warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if "which this worker serves" in line]


def run_in(channel: str) -> None:
    jobs.add.using(channel=channel).enqueue(1)
    drain("--channel", channel)


SEEN: dict[str, Callable[[str], Any]] = {
    "has a message": lambda name: send(name, {}, run_after=3600),
    "is limited": lambda name: Channel(name).policy(max_running=1),
    "is configured": lambda name: Channel(name).configure(watched=True),
}


def test_it_says_which_may_be_meant_and_which_exist(caplog: pytest.LogCaptureFixture) -> None:
    Channel("parcels").pause()

    drain("--channel", "mial")

    [line] = warnings(caplog.text)
    assert "policy or configuration names 'mial', which" in line
    assert "Did you mean 'mail'? Known channels: " in line
    assert "mail, " in line.partition("Known")[2]
    assert "parcels" in line.partition("Known")[2]


def test_it_names_each_of_several_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    drain("--channel", "mail", "--channel", "mial", "--channel", "qqqqqq")

    [line] = warnings(caplog.text)
    assert "names 'mial', 'qqqqqq', which" in line


def test_a_list_of_many_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(30):
        Channel(f"bulk {number:02}").pause()

    drain("--channel", "mial")

    [line] = warnings(caplog.text)
    assert "bulk 15" in line
    assert "bulk 29" not in line
    assert line.endswith(" more.")


@pytest.mark.parametrize("see", SEEN.values(), ids=SEEN)
def test_a_channel_that_was_seen_is_not_mentioned(
    see: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    see("mial")

    drain("--channel", "mial")

    assert warnings(caplog.text) == []


def test_a_channel_whose_messages_have_ended_is_not_mentioned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_in("mial")
    assert len(warnings(caplog.text)) == 0
    assert channels.in_use(connection) == []

    drain("--channel", "mial")

    assert warnings(caplog.text) == []


def test_a_channel_of_a_task_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    assert jobs.mail.queue_name == "mail"

    drain("--channel", "mail")

    assert warnings(caplog.text) == []


def test_a_channel_that_settings_name_is_not_mentioned(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    backend = "pgqueue.backend.PostgresBackend"
    settings.TASKS = {"default": {"BACKEND": backend, "QUEUES": ["default", "mial"]}}

    drain("--channel", "mial")

    assert warnings(caplog.text) == []


@pytest.mark.parametrize("arguments", [[], ["--exclude", "mial"]], ids=" ".join)
def test_a_worker_for_every_channel_mentions_none(
    arguments: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    drain(*arguments)

    assert warnings(caplog.text) == []


def test_of_names_behind_the_first_thousand_nothing_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "LIMIT", 1)
    Channel("n").pause()

    drain("--channel", "mial", "--channel", "zzz")

    [line] = warnings(caplog.text)
    assert "names 'mial', which" in line


@pytest.mark.parametrize("arguments", [[], ["--processes", "2"]], ids=" ".join)
def test_it_is_said_once_and_the_channel_is_served(arguments: list[str]) -> None:
    with worker("--channel", "mial", *arguments) as process:
        result = jobs.add.using(channel="mial").enqueue(1)
        eventually(lambda: History.objects.filter(pk=result.id).exists())
        process.signal(signal.SIGTERM)
        assert process.exit_status() == 0

    assert len(warnings(process.log)) == 1
    assert "Traceback" not in process.log
