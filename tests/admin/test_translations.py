"""Whatever a page of the admin says can be translated, and is translated into German."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone, translation
from django.utils.translation import trans_real

from pgqueue import webhooks
from pgqueue.admin.operations import OPERATIONS
from pgqueue.engine import run_statistics
from pgqueue.events import groups
from pgqueue.models import (
    Channel,
    Gate,
    History,
    Lane,
    Message,
    Schedule,
    Subscription,
    Webhook,
    Worker,
)
from pgqueue.operating import bulk
from pgqueue.states import Outcome, State
from tests import stored_flows as flows
from tests.admin.pages import BEGIN, END, untranslated
from tests.factories import Connection, ended, limit, record
from tests.management.test_stats import counted
from tests.stored_flows import Member

pytestmark = pytest.mark.slow

NAME = "κλ"
"""Of everything there is: no word of any language that texts are written in."""
DATA = {
    *("UTC", "GMT", "Europe", "Berlin", "https", "http"),
    # Names of tasks, channels and duties.
    *("tests", "jobs", "add", "pgqueue", "operating", "bulk", "operate", "purge", "operations"),
    "default",
    # Django's own admin says these in English alone.
    *("Search", "True", "False", "None"),
}


SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LISTED = (
    *("message", "history", "channel", "policy", "worker", "event", "group", "subscription"),
    *("webhook", "schedule", "duty", "flow"),
)


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """A language in which each text stands in brackets."""
    settings.LANGUAGE_CODE = "el"

    def wrap(real: Callable[..., str]) -> Callable[..., str]:
        def translated(*args: Any) -> str:
            text = real(*args)
            return f"{BEGIN}{text}{END}" if text else text

        return translated

    # Names of tasks are data; the test project has English ones.
    monkeypatch.setattr("pgqueue.admin.filters.tasks_in_use", lambda alias: ["κ.λ"])
    for name in ("gettext", "ngettext", "pgettext", "npgettext"):
        monkeypatch.setattr(translation._trans, name, wrap(getattr(trans_real, name)))


@pytest.fixture
def admin(db: None, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("κ"))
    return client


@pytest.fixture
def made(queue: Connection, bracketed: None) -> dict[str, str]:
    """Something of each kind: the address of each page, by a name."""
    now = timezone.now()
    alive = Worker.objects.create(
        id=uuid4(), host=NAME, pid=1, started_at=now, last_seen=now, channels=[NAME, "κ"],
        excluded=["λ"], info={"threads": 8, "release": "1"},
    )  # fmt: skip
    error = {"attempt": 1, "class": "κ.Λ", "message": "μ", "release": "1", "traceback": "no"}
    lane = {"channel": NAME, "key": "κ", "task": "κ.λ", "max_attempts": 5}
    dead = Message.objects.create(
        **lane, state=State.DEAD, errors=[error, error | {"attempt": 3}], claimed_at=now,
        attempt=4, failures=2, lost=1, parent_id=7, expires_at=now, worker_id=alive.pk,
        metadata={"schedule": "κ", "tick": "1", "subscription": "κ", "position": 1,
                  "acting": {"user": {"name": "κ"}}, "replayed_from": 1},
    )  # fmt: skip
    live = [
        Message.objects.create(**lane, **given).pk
        for given in (
            {"state": State.HELD},
            {"state": State.READY},
            {"state": State.READY, "ordered": True, "governed": True},
            {"state": State.SCHEDULED, "run_at": now + timedelta(hours=3)},
            {"state": State.SCHEDULED, "failures": 1, "attempt": 1, "claimed_at": now},
            {
                "state": State.RUNNING, "worker_id": alive.pk, "attempt": 1, "claimed_at": now,
                "started_at": now, "cancel_requested_at": now,
            },
        )
    ]  # fmt: skip
    for outcome in Outcome:
        ended(queue, channel=NAME, outcome=outcome.value)
    ended_ones = [*History.objects.values_list("pk", flat=True)]
    History.objects.update(task="κ.λ", started_at=now)
    Channel.objects.create(name=NAME, paused=True)
    policies = [
        limit(NAME, "channel", max_running=1, rate=1, max_size=1),
        limit(NAME, "each", max_running=1, weight=2),
        limit(NAME, "key", "κ", rate=1, burst=1, max_running=1, max_size=1),
    ]
    Gate.objects.update(wake_at=now + timedelta(hours=1))
    for key, state in (("κ", "throttled"), ("λ", "saturated"), ("", "saturated")):
        Lane.objects.create(
            channel=NAME, key=key, state=state, turn_at=now, tat=now,
            wake_at=now + timedelta(hours=1),
        )  # fmt: skip
    Schedule.objects.create(
        name=NAME, task="tests.jobs.add", cron="0 3 * * *", recent=ended_ones, message_id=dead.pk,
        error="μ",
    )  # fmt: skip
    Schedule.objects.create(name="λ", task="tests.jobs.add", every=timedelta(hours=1), paused=True)
    [position] = record(queue, topic="κ.λ", key="κ")
    groups.make(NAME, partitions=2)
    Subscription.objects.create(name=NAME, task="κ.λ", topics=["κ.λ"], position=0, channel=NAME)
    Subscription.objects.create(name="λ", task="κ.λ", position=1, paused=True, error="μ")
    webhooks.create("ξ", "https://127.0.0.1/", topics="κ.λ", secret=SECRET)
    Webhook.objects.update(failing_since=now, enabled=False, error="μ")
    drawn = [
        flows.store(
            NAME,
            [
                Member("κ.λ", "succeeded", (), 1, 2),
                *[Member("κ.μ", word, (0,), 3, 4) for word in (*State.values, *Outcome.values)],
                *[Member("κ.μ", "succeeded", (0,), 3, 4)] * more,
                Member("κ.λ", "held", (1, 5, 6), on_failure="wait"),
            ],
            handler=1,
        )
        for more in (0, 40)
    ]
    stuck = flows.store("λ", [Member("κ", "dead"), Member("κ", "held", (0,))])
    Message.objects.filter(flow_id__isnull=False).exclude(errors=[]).update(errors=[error])
    ended_flow = flows.store("μ", [Member("κ", "succeeded")], ended_at=now)
    counts = counted(succeeded=1, failed=1)._replace(channel=NAME, task="κ.λ")
    run_statistics.add(queue, [counts], source=uuid4(), batch=1)
    run_statistics.fold(queue)
    root = "/admin/pgqueue"
    replaying = bulk.start("replay", bulk.Filter(channel=NAME), newest=1, user={"id": 1}).id
    purging = bulk.start_purge(
        NAME, newest=1, user={"id": 1}, states=["dead"], keep=1, older_than=1.0
    ).id
    pages = {
        "overview": f"{root}/overview/",
        "channel": f"{root}/channel/page/?name={NAME}",
        "unknown channel": f"{root}/channel/page/?name=λ",
        "purge": f"{root}/channel/purge/?name={NAME}",
        "trim": f"{root}/channel/trim/?name={NAME}",
        "key": f"{root}/message/key/?channel={NAME}&key=κ",
        "no key": f"{root}/message/key/?channel={NAME}&key=",
        "idle key": f"{root}/message/key/?channel=λ&key=λ",
        "replaying": f"{root}/message/bulk/{replaying}/",
        "purging": f"{root}/message/bulk/{purging}/",
        **{f"flow {each.id}": each.path for each in (*drawn, stuck, ended_flow)},
        **{
            f"member {id}": f"{root}/message/{id}/change/"
            for id in Message.objects.filter(flow_id__in=[drawn[0].id, stuck.id]).values_list(
                "pk", flat=True
            )
        },
        **{
            f"{action} flow": f"{root}/flow/{stuck.id}/operate/?action={action}"
            for action in ("cancel", "retry")
        },
        "living flows": f"{root}/flow/?state=living",
        "ended flows": f"{root}/flow/?state=ended",
        "a flow by its id": f"{root}/flow/?q={stuck.id}",
        "history of a flow": f"{root}/history/?flow={stuck.id}&outcome=succeeded",
        "bulk of a flow": f"{root}/message/bulk/?action=cancel&flow={stuck.id}",
        "worker": f"{root}/worker/{alive.pk}/change/",
        "event": f"{root}/event/{position}/change/",
        **{
            f"bulk {name}": f"{root}/message/bulk/?action={name}&channel={NAME}&q=κ&error=κ.Λ"
            for name in OPERATIONS
        },
        **{f"message {id}": f"{root}/message/{id}/change/" for id in (*live, dead.pk)},
        **{f"ended {id}": f"{root}/history/{id}/change/" for id in ended_ones},
        **{f"policy {each.pk}": f"{root}/policy/{each.pk}/change/" for each in policies},
        **{
            f"{state} messages": f"{root}/message/?state={state}&q=κ"
            for state in (*State.values, "governed")
        },
        "key's messages": f"{root}/message/?q=κ",
        "a message": f"{root}/message/?q={dead.pk}",
        "a rare task": f"{root}/message/?task=λ",
    }
    for model in LISTED:
        pages[f"all {model}"] = f"{root}/{model}/"
    for model in ("channel", "policy", "schedule", "group", "subscription", "webhook"):
        pages[f"new {model}"] = f"{root}/{model}/add/"
    for model in ("channel", "schedule", "group", "subscription"):
        pages[f"a {model}"] = f"{root}/{model}/{quote(NAME)}/change/"
    pages["a webhook"] = f"{root}/webhook/{quote('ξ')}/change/"
    pages["another schedule"] = f"{root}/schedule/{quote('λ')}/change/"
    return pages


def test_each_page_says_nothing_that_can_not_be_translated(
    admin: Client, made: dict[str, str]
) -> None:
    found = {}
    for name, path in made.items():
        response = admin.get(path)
        assert response.status_code == 200, (name, response.status_code)
        if said := untranslated(response.text, DATA):
            found[name] = said

    assert found == {}, "\n".join(f"{name}: {said}" for name, said in found.items())


def test_what_is_not_translated_is_noticed() -> None:
    page = (
        f"<p title='No'>{BEGIN}Yes {BEGIN}this{END}, too{END} κ <b>not this</b></p>"
        f"<pre>data</pre><input type='submit' value='Go'> data"
    )

    assert untranslated(page, {"data"}) == ["No", "not this", "Go"]
