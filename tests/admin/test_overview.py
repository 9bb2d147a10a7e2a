"""The overview: what the queue does now, on one page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from pgqueue.admin.overview_data import LABELS, look
from pgqueue.admin.overview_sections import in_words
from pgqueue.engine import overview, run_statistics
from pgqueue.engine.run_statistics import WINDOWS, Counts
from pgqueue.models import Breaker, Gate, Lane, Message, Policy, Worker
from pgqueue.signals import task_started
from pgqueue.states import State
from tests import jobs
from tests import stored_flows as flows
from tests.factories import limit
from tests.stored_flows import Member

pytestmark = pytest.mark.django_db(transaction=True)

URL = "/admin/pgqueue/overview/"
HOUR = WINDOWS["hour"]


@pytest.fixture
def viewer(client: Client) -> Client:
    """A client of somebody who may see the overview, and nothing else."""
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_overview"))
    client.force_login(user)
    return client


def test_it_has_a_permission_of_its_own(viewer: Client) -> None:
    assert viewer.get(URL).status_code == 200
    assert viewer.get(f"{URL}data/").status_code == 200
    assert URL in viewer.get("/admin/").text

    User.objects.get(username="viewer").user_permissions.clear()

    for path in (URL, f"{URL}data/", f"{URL}stream/"):
        assert viewer.get(path).status_code == 403


def test_it_shows_what_ran_and_why_it_failed(viewer: Client) -> None:
    jobs.add.enqueue_many([(each,) for each in range(20)])
    jobs.fail.using(max_attempts=2).enqueue("no use")
    call_command("runworker", "--drain", verbosity=0)

    page = viewer.get(URL).text

    snapshot = look("default", HOUR)
    tasks = {each.counts.task: each for each in snapshot.tasks}
    assert tasks[jobs.add.name].counts.succeeded == 20
    assert tasks[jobs.add.name].wait_p50 is not None
    assert tasks[jobs.fail.name].failure_percent == 100
    assert snapshot.totals["runs"] == 22
    assert in_words(snapshot)["runs"] == "22 runs, 2 failed."
    assert in_words(snapshot)["times"].startswith("Mean wait ")
    assert sum(snapshot.chart["succeeded"]) == 20  # type: ignore[arg-type]
    assert sum(snapshot.chart["failed"]) == 2  # type: ignore[arg-type]
    assert len(snapshot.chart["at"]) == 60
    [dead] = snapshot.dead
    assert (dead.group.error, dead.group.letters) == ("builtins.ValueError", 1)
    assert "no use" in (dead.group.message or "")
    assert "state=dead&amp;channel=default" in page
    assert "builtins.ValueError" in page


def test_it_shows_how_many_runs_were_lost_with_their_workers(viewer: Client) -> None:
    given = {**dict.fromkeys(Counts._fields[2:10], 0), "succeeded": 1, "lost": 4321}
    buckets = [0] * run_statistics.BUCKETS
    counts = Counts("mail", "send", **given, waits=buckets, runs=buckets)  # type: ignore[arg-type]
    run_statistics.add(connection.connection, [counts], source=uuid4(), batch=1)

    assert '<td class="number">4321</td>' in viewer.get(URL).text


def test_flows_with_dead_messages_are_named_the_oldest_first(client: Client) -> None:
    now, dead = timezone.now(), Member("a", State.DEAD)
    new = flows.store("new", [dead], at=now - timedelta(minutes=1))
    old = flows.store("old", [dead, dead, Member("b", State.HELD, (0, 1))])
    flows.store("well", [Member("a", State.READY)])

    client.force_login(User.objects.create_superuser("root"))
    page = client.get("/admin/pgqueue/overview/").content.decode()

    found = look("default", HOUR).flows
    assert [(each.id, each.name, each.dead) for each in found] == [
        (old.id, "old", 2),
        (new.id, "new", 1),
    ]
    assert f'<a href="{old.path}">old #{old.id}</a>' in page


def test_a_worker_that_started_shortly_before_failures_stands_beside_them() -> None:
    now = timezone.now()
    old, new, later = (
        Worker.objects.create(
            id=UUID(int=n), host=name, pid=n, started_at=now - timedelta(minutes=age), last_seen=now
        )
        for n, name, age in ((1, "old", 60), (2, "new", 10), (3, "later", 1))
    )
    message = Message.objects.create(
        channel="mail",
        task="send",
        state=State.DEAD,
        max_attempts=1,
        claimed_at=now,
        errors=[{"class": "E", "message": "", "at": (now - timedelta(minutes=5)).isoformat()}],
    )

    [dead] = look("default", HOUR).dead

    assert dead.group.newest == message.pk
    assert dead.started == new
    assert {each.worker for each in look("default", HOUR).workers} == {old, new, later}


def test_dead_letters_tell_in_which_release_they_began_to_fail(viewer: Client) -> None:
    at = timezone.now()
    for release, age in (("2026.11.3", 1), ("2026.11.2", 5), ("2026.11.3", 3)):
        failed = {"class": "E", "at": (at - timedelta(minutes=age)).isoformat(), "release": release}
        last = {"class": "E", "at": at.isoformat(), "release": "2026.11.4"}
        Message.objects.create(
            channel="mail",
            task="send",
            state=State.DEAD,
            max_attempts=2,
            claimed_at=at,
            errors=[failed, last],
        )

    [dead] = look("default", HOUR).dead

    assert dead.group.releases == ["2026.11.2", "2026.11.3", "2026.11.4"]
    page = viewer.get(URL).text
    assert page.index("2026.11.2") < page.index("2026.11.3")


def test_workers_and_the_errors_of_their_runs_tell_the_release(
    viewer: Client, settings: Any
) -> None:
    settings.PGQUEUE = {**settings.PGQUEUE, "RELEASE": "2026.11.3"}
    message = jobs.fail.using(max_attempts=1).enqueue("no use").id
    pages: list[str] = []

    def look_at_the_workers(**_: Any) -> None:
        pages.append(viewer.get(URL).text)
        assert Worker.objects.get().info["release"] == "2026.11.3"

    task_started.connect(look_at_the_workers)
    try:
        call_command("runworker", "--drain", verbosity=0)
    finally:
        task_started.disconnect(look_at_the_workers)

    [error] = Message.objects.get(pk=message).errors
    assert error["release"] == "2026.11.3"
    assert "2026.11.3" in pages[0]
    [dead] = look("default", HOUR).dead
    assert dead.group.releases == ["2026.11.3"]


@pytest.mark.parametrize("window", [*WINDOWS, "", "anything"])
def test_each_window_has_a_page_and_what_pages_ask_for(viewer: Client, window: str) -> None:
    told = viewer.get(f"{URL}data/?window={window}").json()

    page = viewer.get(f"{URL}?window={window}")
    assert page.status_code == 200
    assert all(str(LABELS[name]) in page.text for name in WINDOWS)
    assert set(told["chart"]) == {"at", "succeeded", "failed", "wait", "run"}
    assert "headline" in told["sections"]
    assert told["in_words"] == {"runs": "Nothing ran.", "times": "Nothing ran."}


def test_limits_that_hold_back_are_named(viewer: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgqueue_policy (channel, scope, key, max_running, per) "
            "VALUES ('mail', 'each', '', 1, '1 s'), ('all', 'channel', '', 1, '1 s')"
        )
        cursor.execute(
            "INSERT INTO pgqueue_lane (channel, key, state, turn_at, tat) "
            "VALUES ('mail', 'ada', 'saturated', now(), now())"
        )
    for channel, key in (("mail", "ada"), ("all", "x")):
        Message.objects.create(
            channel=channel, key=key, task="t", state=State.RUNNING, max_attempts=1
        )
    Policy.objects.create(channel="heavy", scope="channel", max_running=3)
    Gate.objects.get_or_create(channel="heavy", defaults={"tat": timezone.now()})
    Message.objects.create(
        channel="heavy",
        key="x",
        task="t",
        state=State.RUNNING,
        max_attempts=1,
        options={"weight": 3},
    )

    limited = look("default", HOUR).limited

    assert limited.is_all
    assert [(each.what, each.channel, each.key, each.running) for each in limited.found] == [
        ("channel", "all", "", 1),
        ("channel", "heavy", "", 1),
        ("key", "mail", "ada", 1),
    ]
    page = viewer.get(URL).text
    assert "Key ada of mail" in page
    assert "as many run as may: 1" in page


def test_what_a_breaker_stops_is_named(viewer: Client) -> None:
    hour = timedelta(hours=1)
    breaker = {"breaker_failures": 5, "breaker_within": hour, "breaker_pause": hour}
    now = timezone.now()
    times = {"turn_at": now, "tat": now}
    for channel, scope in (("crm", "channel"), ("tried", "channel"), ("mail", "each")):
        limit(channel, scope, **breaker)
    limit("closed", "channel", **breaker)
    probe = Message.objects.create(
        channel="tried", key="x", task="t", state=State.RUNNING, max_attempts=1, attempt=1
    )
    Lane.objects.create(
        channel="mail", key="ada", state="throttled", wake_at=now + hour / 2, **times
    )
    for channel, key, columns in (
        ("crm", "", {"open_until": now + hour / 2}),
        ("mail", "ada", {"open_until": now + hour / 2}),
        ("tried", "", {"open_until": now - hour, "probe_id": probe.pk, "probe_attempt": 1}),
        ("closed", "", {"open_until": None}),
    ):
        Breaker.objects.create(channel=channel, key=key, failed_at=[], **columns)

    found = look("default", HOUR).limited.found

    assert [(each.what, each.channel, each.state, each.wake_at) for each in found] == [
        ("channel", "crm", "stopped", now + hour / 2),
        ("key", "mail", "stopped", now + hour / 2),
        ("channel", "tried", "stopped", None),
    ]
    assert viewer.get(URL).text.count("its circuit breaker is open") == 3


def test_limits_of_very_many_channels_are_not_all_looked_at_and_the_page_says_so(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "GATES", 2)
    for name in ("a", "b", "c"):
        limit(name, "channel", max_running=1)
        Message.objects.create(channel=name, task="t", state=State.RUNNING, max_attempts=1)

    limited = look("default", HOUR).limited

    assert [each.channel for each in limited.found] == ["a", "b"]
    assert not limited.is_all
    assert "Not all were looked at" in viewer.get(URL).text


def test_very_many_keys_that_are_held_back_are_not_all_listed_and_the_page_says_so(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "LIMITED", 2)
    now = timezone.now()
    for key in ("ada", "bob", "cleo"):
        Lane.objects.create(channel="mail", key=key, state="saturated", turn_at=now, tat=now)

    limited = look("default", HOUR).limited

    assert len(limited.found) == 2
    assert not limited.is_all
    assert "Not all were looked at" in viewer.get(URL).text
