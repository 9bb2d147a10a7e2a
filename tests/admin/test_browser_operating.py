"""What an operator asks who has never seen the admin, answered by clicks from its first page."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Page, expect

from pgqueue.models import Channel, Lane, Message, Schedule, Worker
from pgqueue.options.ticks import upcoming
from pgqueue.states import State
from tests.admin.test_browser_pages import fits, page  # noqa: F401
from tests.browsing import shoot
from tests.factories import enqueue, insert, limit, register
from tests.processes import worker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SEND = "shop.tasks.send_receipt"
REFUSED = "smtplib.SMTPSenderRefused"


def see_overview(page: Page) -> None:  # noqa: F811
    """Go to the overview: the page before may have links of the same names."""
    page.get_by_role("link", name="Overview", exact=True).first.click()
    expect(page).to_have_url(re.compile(r"/pgqueue/overview/$"))


@pytest.fixture
def shop(page: Page) -> Page:  # noqa: F811
    """A shop with a tenant who waits, failures since a deploy, and plans for the night."""
    connection.ensure_connection()
    queue: Any = connection.connection
    at = register(queue)
    now = timezone.now()
    Worker.objects.filter(pk=at).update(
        host="worker-1",
        info={"threads": 8, "version": "0.1.0", "release": "2026.11.24"},
        started_at=now - timedelta(minutes=42),
    )
    limit("mail", "each", max_running=2)
    for _ in range(2):
        insert(queue, channel="mail", key="tenant-7", state="running", task=SEND, worker_id=at)
    enqueue(queue, 40, channel="mail", key="tenant-7", task=SEND)
    enqueue(queue, 3, channel="mail", key="tenant-8", task=SEND)
    Lane.objects.create(channel="mail", key="tenant-7", state="saturated", turn_at=now, tat=now)
    for minutes in range(40, 34, -1):
        first = now - timedelta(minutes=minutes)
        error = {
            "class": REFUSED,
            "message": "550 unknown sender",
            "release": "2026.11.24",
            "traceback": f'  File "shop/tasks.py", line 31, in send_receipt\n{REFUSED}: 550',
        }
        errors = [
            {**error, "attempt": n, "at": first.isoformat(), "worker": str(at)} for n in (1, 2)
        ]
        Message.objects.create(
            channel="mail",
            key="tenant-8",
            task=SEND,
            state=State.DEAD,
            max_attempts=2,
            failures=2,
            attempt=2,
            errors=errors,
            claimed_at=first + timedelta(seconds=9),
            created_at=first - timedelta(seconds=1),
        )
    plan = Schedule(
        name="forget-old-carts", task="tests.jobs.add", args=[1], cron="0 3 * * *",
        timezone="Europe/Berlin",
    )  # fmt: skip
    [plan.next_at] = upcoming(plan.rhythm, now, 1)
    plan.save()
    for _ in range(3):
        Message.objects.create(
            channel="campaign", key="tenant-7", task=SEND, state=State.SCHEDULED, max_attempts=5,
            run_at=now + timedelta(hours=4),
        )  # fmt: skip
    page.goto("/admin/")
    see_overview(page)
    return page


def test_why_the_mails_of_a_tenant_are_late(shop: Page) -> None:
    shoot(shop.locator("[data-section=limited]"), "operating-limits")

    shop.get_by_role("link", name="Key tenant-7 of mail").click()

    expect(
        shop.get_by_text("The key is saturated: 2 of its messages run, and 2 may")
    ).to_be_visible()
    expect(shop.get_by_text("40 messages are ready")).to_be_visible()
    fits(shop)


def test_which_deploy_began_the_failures(shop: Page) -> None:
    dead = shop.locator("[data-section=dead]")
    expect(dead.get_by_role("cell", name="2026.11.24")).to_be_visible()
    expect(dead.get_by_role("link", name="worker-1:1")).to_be_visible()
    shoot(dead, "operating-failures")

    dead.get_by_role("link", name=REFUSED).click()
    shop.locator("#result_list th a").first.click()

    expect(shop.get_by_text("in the release 2026.11.24").first).to_be_visible()
    fits(shop)


def test_what_will_happen_at_three_in_the_morning(shop: Page) -> None:
    plans = shop.locator("[data-section=schedules]")
    expect(plans.get_by_text("At 03:00 every day (Europe/Berlin)")).to_be_visible()
    shoot(plans, "operating-plans")

    plans.get_by_role("link", name="forget-old-carts").click()
    expect(shop.get_by_text("03:00:00 CET").first).to_be_visible()
    assert shop.get_by_text("03:00:00 CET").count() == 10
    shop.go_back()
    shop.get_by_role("link", name="Messages that are delayed").click()

    expect(shop.get_by_text("The next to be due first")).to_be_visible()
    expect(shop.get_by_role("row", name="campaign tenant-7")).to_have_count(3)


def test_all_of_it_is_undone(shop: Page) -> None:
    shop.get_by_role("link", name="forget-old-carts").click()
    shop.get_by_role("button", name="Pause").click()
    expect(shop.get_by_text("1 paused.")).to_be_visible()

    see_overview(shop)
    shop.get_by_role("link", name="mail", exact=True).click()
    shop.get_by_role("button", name="Pause: start none of its messages").click()
    expect(shop.get_by_text("It is paused: workers start none")).to_be_visible()
    assert Channel.objects.get(name="mail").paused

    with worker("--threads", "1", "--channel", "operations"):
        shop.get_by_role("link", name="Replay all …").click()
        expect(shop.get_by_text("This is done to 6 messages.")).to_be_visible()
        shop.get_by_role("button", name="Yes, replay all").click()
        expect(shop.get_by_text("6 replayed")).to_be_visible()

        see_overview(shop)
        shop.get_by_role("link", name="campaign", exact=True).click()
        shop.get_by_role("link", name="Cancel all …").click()
        expect(shop.get_by_text("This is done to 3 messages.")).to_be_visible()
        shoot(shop, "operating-cancel")
        shop.get_by_role("button", name="Yes, cancel all").click()
        expect(shop.get_by_text("3 cancelled")).to_be_visible()

    see_overview(shop)
    shop.get_by_role("link", name="mail", exact=True).click()
    shop.get_by_role("button", name="Resume").click()
    expect(shop.get_by_role("button", name="Pause: start none of its messages")).to_be_visible()
    assert Schedule.objects.get().paused
    assert Message.objects.filter(state=State.DEAD).count() == 0
    assert Message.objects.filter(state=State.SCHEDULED).count() == 0
