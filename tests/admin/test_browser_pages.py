"""The admin's pages for one thing in headless Chromium, which loads nothing of another host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from pgqueue.models import History, Lane, Message, Policy, Schedule, Worker
from tests.admin.acting import MESSAGES
from tests.admin.test_story import greet
from tests.browsing import PATIENCE, shoot
from tests.factories import bury, enqueue, insert, limit, register, run, schedule
from tests.processes import worker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

POLICY = "default-src 'self'"
DEAD = """
INSERT INTO pgqueue_message (channel, key, task, payload, state, attempt, failures, max_attempts,
                             errors, claimed_at)
SELECT 'mail', 'tenant-' || n % 40, 'tests.jobs.anything', '{"args": [], "kwargs": {}}', 'dead', 5,
       5, 5, '[{"attempt": 5, "class": "smtplib.SMTPServerDisconnected", "message": "closed"}]',
       statement_timestamp()
FROM generate_series(1, %s) AS n
"""


class OnlyThisHost:
    """Middleware: what a page loads or runs is of its own host, and in no page itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response


@pytest.fixture
def page(
    browser: Browser,
    settings: Any,
    live_server: Any,
) -> Iterator[Page]:
    """A page of an operator who may do everything; it must complain of nothing."""
    settings.MIDDLEWARE = [*django_settings.MIDDLEWARE, f"{__name__}.OnlyThisHost"]
    for model in (Message, History, Policy, Lane, Schedule, Worker):
        model.objects.all().delete()
    User.objects.create_superuser("operator", password="secret")
    context = browser.new_context(
        base_url=live_server.url, viewport={"width": 1180, "height": 820}, locale="en-GB"
    )
    context.set_default_timeout(PATIENCE)
    context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto("/admin/login/")
    page.get_by_label("Username").fill("operator")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()
    yield page
    context.close()
    assert complaints == []


def fits(page: Page) -> None:
    """A phone shows all of it, without scrolling to the side."""
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_twenty_five_thousand_dead_letters_are_replayed_with_a_progress_bar(page: Page) -> None:
    connection.cursor().execute(DEAD.replace("n % 40", "n %% 40"), [25_000])
    page.goto(f"{MESSAGES}?state=dead&channel=mail")
    page.get_by_role("link", name="Replay …").click()
    expect(page.get_by_text("more than 10000 messages")).to_be_visible()
    shoot(page, "bulk-confirmation")
    page.get_by_role("button", name="Yes, replay all").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_text("It waits for a worker.")).to_be_visible()

    with worker("--threads", "1", "--channel", "operations"):
        page.wait_for_function("document.querySelector('progress').value > 0")
        shoot(page, "bulk-progress")
        expect(page.get_by_text("25,000 replayed")).to_be_visible()
        expect(page.get_by_text("It has ended.")).to_be_visible()

    assert Message.objects.filter(channel="mail", state="ready").count() == 25_000
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    fits(page)


def test_a_policy_shows_its_effect_before_it_is_saved(page: Page) -> None:
    connection.ensure_connection()
    queue = connection.connection
    register(queue)
    for _ in range(4):
        insert(queue, channel="mail", state="running", key="tenant-1")
    enqueue(queue, 300, channel="mail", key="tenant-1")
    enqueue(queue, 60, channel="mail", key="tenant-2")
    page.goto("/admin/pgqueue/channel/page/?name=mail")
    page.get_by_role("link", name="Limit each key …").click()
    page.get_by_label("Max running").fill("3")
    page.get_by_label("Rate", exact=False).first.fill("2")
    page.get_by_role("button", name="Show the effect").click()
    expect(page.get_by_text("What runs goes on.")).to_be_visible()
    expect(page.get_by_text("2 keys would be held back")).to_be_visible()
    assert not Policy.objects.exists()
    shoot(page, "policy-preview")
    fits(page)

    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.get_by_role("heading", name="Channel “mail”")).to_be_visible()
    assert Policy.objects.get().max_running == 3


def test_a_message_tells_its_story(page: Page) -> None:
    connection.ensure_connection()
    group = Group.objects.create(name="Support")
    message = int(greet.enqueue(group).id)
    began = timezone.now() - timedelta(minutes=7)
    errors = [
        {
            "attempt": n,
            "at": (began + timedelta(minutes=n)).isoformat(),
            "class": "smtplib.SMTPServerDisconnected",
            "worker": "00000000-0000-0000-0000-000000000001",
            "message": "Connection unexpectedly closed",
            "traceback": 'Traceback (most recent call last):\n  File "shop/tasks.py", line 31, in '
            "greet\n    mail.send()\nsmtplib.SMTPServerDisconnected: Connection closed",
        }
        for n in (1, 2, 3)
    ]
    metadata = {"schedule": "nightly", "tick": began.isoformat(timespec="seconds")}
    Message.objects.filter(pk=message).update(
        errors=errors,
        attempt=3,
        failures=3,
        state="dead",
        metadata=metadata,
        created_at=began,
        claimed_at=began + timedelta(minutes=3),
    )

    page.goto(f"{MESSAGES}{message}/change/")

    expect(page.get_by_role("heading", name="What happened to it")).to_be_visible()
    expect(page.get_by_role("link", name="group “Support”")).to_be_visible()
    shoot(page.locator("section[aria-labelledby=story-heading]"), "message")
    page.get_by_role("link", name="Its key").click()
    expect(page.get_by_role("heading", name="What holds it back")).to_be_visible()


def test_a_key_says_why_it_is_late(page: Page) -> None:
    connection.ensure_connection()
    queue = connection.connection
    register(queue)
    limit("mail", "each", max_running=2, rate=30, per=timedelta(minutes=1))
    for _ in range(2):
        insert(
            queue, channel="mail", key="tenant-1", state="running", task="shop.tasks.send_receipt"
        )
    enqueue(queue, 40, channel="mail", key="tenant-1", task="shop.tasks.send_receipt")
    enqueue(queue, 90, channel="mail", key="tenant-2", task="shop.tasks.send_receipt")
    now = timezone.now()
    Lane.objects.create(channel="mail", key="tenant-1", state="saturated", turn_at=now, tat=now)

    page.goto("/admin/pgqueue/message/key/?channel=mail&key=tenant-1")

    expect(page.get_by_text("The key is saturated: 2 of its messages run")).to_be_visible()
    shoot(page, "key")
    fits(page)


def test_a_channel_is_paused_by_the_keyboard(page: Page) -> None:
    connection.ensure_connection()
    queue = connection.connection
    register(queue)
    bury(queue, 3, channel="mail", task="shop.tasks.send_receipt")
    enqueue(queue, 30, channel="mail", key="tenant-1")
    schedule(queue, 4, channel="mail")
    limit("mail", "channel", max_running=20)
    page.goto("/admin/pgqueue/channel/page/?name=mail")
    shoot(page, "channel")
    page.emulate_media(color_scheme="dark")
    shoot(page, "channel-dark")

    page.get_by_role("button", name="Pause: start none of its messages").focus()
    page.keyboard.press("Enter")

    expect(page.get_by_text("It is paused: workers start none")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    fits(page)


def test_a_schedule_shows_what_will_happen_and_a_worker_what_it_does(page: Page) -> None:
    connection.ensure_connection()
    queue = connection.connection
    at = register(queue)
    (held,) = run(queue, worker_id=at, task="shop.tasks.pack")
    Schedule.objects.create(
        name="nightly",
        task="tests.jobs.add",
        args=[1],
        cron="0 3 * * *",
        timezone="Europe/Berlin",
        recent=[held.id],
    )

    page.goto("/admin/pgqueue/schedule/nightly/change/")
    expect(page.get_by_text("At 03:00")).to_be_visible()
    expect(page.get_by_role("link", name=f"#{held.id}")).to_be_visible()
    shoot(page, "schedule")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("1 enqueued.")).to_be_visible()

    page.goto(f"/admin/pgqueue/worker/{at}/change/")
    expect(page.get_by_role("link", name=f"shop.tasks.pack #{held.id}")).to_be_visible()
    shoot(page, "worker")


@pytest.mark.parametrize("width", [1280, 1440])
def test_no_column_of_the_list_is_cut_off_and_each_row_is_one_line(page: Page, width: int) -> None:
    connection.ensure_connection()
    queue = connection.connection
    bury(queue, 2, channel="mail", task="shop.tasks.mails.send_the_receipt_to_its_customer")
    schedule(queue, 2, channel="mail", key="tenant-12345")
    error = [{"class": "smtplib.SMTPServerDisconnected", "message": "closed unexpectedly " * 20}]
    Message.objects.filter(state="dead").update(errors=error)
    page.set_viewport_size({"width": width, "height": 900})

    page.goto(MESSAGES)

    assert page.evaluate(
        "(() => { const it = document.querySelector('.results');"
        " return it.scrollWidth - it.clientWidth; })()"
    ) == 0  # fmt: skip
    heights = page.evaluate(
        "[...document.querySelectorAll('#result_list tbody tr')].map((row) => row.offsetHeight)"
    )
    assert max(heights) < 50
    cut = page.get_by_title("closed unexpectedly", exact=False).first
    expect(cut).to_have_attribute("title", re.compile("closed unexpectedly closed"))
    fits(page)


def test_a_message_takes_two_screens_at_most(page: Page) -> None:
    connection.ensure_connection()
    (message,) = bury(connection.connection, channel="mail")
    traceback = "Traceback (most recent call last):\n" + "  File “a.py”, line 1, in a\n" * 200
    error = {"class": "a.Oops", "message": "no", "traceback": traceback, "attempt": 1}
    Message.objects.filter(pk=message).update(errors=[error], metadata={"a": 1}, key="k")
    page.set_viewport_size({"width": 1280, "height": 900})

    page.goto(f"{MESSAGES}{message}/change/")

    story = page.locator("section[aria-labelledby=story-heading]").bounding_box()
    arguments = page.locator(".field-payload_text").bounding_box()
    assert story is not None and arguments is not None
    assert arguments["x"] >= story["x"] + story["width"]
    assert page.evaluate("document.documentElement.scrollHeight") <= 1800
    fits(page)


def test_an_open_page_takes_over_the_progress_of_its_message(page: Page) -> None:
    connection.ensure_connection()
    [claim] = run(connection.connection, task="shop.tasks.import_orders")
    Message.objects.filter(pk=claim.id).update(progress={"done": 1, "total": 4})
    page.goto(f"{MESSAGES}{claim.id}/change/")
    bar = page.get_by_role("progressbar", name="Progress")
    expect(bar).to_have_attribute("value", "25.0")

    Message.objects.filter(pk=claim.id).update(progress={"done": 3, "total": 4})

    expect(bar).to_have_attribute("value", "75.0")
    expect(page.get_by_text("75 %, 3 of 4")).to_be_visible()
    expect(page.locator(".field-progress_text")).to_contain_text('"done": 3')
    fits(page)
