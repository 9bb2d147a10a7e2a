"""Live lists in a real browser: rows stay where they are while somebody points at one."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from pgqueue.models import Message
from pgqueue.states import State
from tests import jobs
from tests.admin.test_browser import (  # noqa: F401
    OVERVIEW,
    admin,
    drain,
    make_something_to_see,
    server,
)
from tests.sse.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def overview(admin: Page, server: Server) -> Page:  # noqa: F811
    """The overview, live, of a queue with messages of each kind."""
    make_something_to_see()
    admin.set_viewport_size({"width": 1280, "height": 2000})
    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")
    expect(admin.locator("#pgqueue-live")).to_have_text("Live")
    return admin


def bury(error: str) -> None:
    """Make a dead letter whose error begins a row of its own."""
    errors = [{"class": error, "message": "no", "attempt": 1}]
    Message.objects.create(
        channel="default",
        task="a.b",
        state=State.DEAD,
        max_attempts=1,
        errors=errors,
        claimed_at=timezone.now(),
    )


def row_of(page: Page) -> Locator:
    return page.locator("[data-section=tasks] tbody tr").first


def place_of(row: Locator) -> Any:
    return row.evaluate("(row) => row.getBoundingClientRect().top")


def test_rows_above_the_pointer_are_announced_and_shown_on_demand(overview: Page) -> None:
    row = row_of(overview)
    row.hover()
    before = place_of(row)

    bury("shop.Stuck")

    news = overview.locator("[data-section=dead] .pgqueue-news")
    expect(news).to_have_text("1 new: show")
    assert place_of(row) == before
    bury("shop.StuckAgain")
    expect(news).to_have_text("2 new: show")
    news.click()
    expect(overview.get_by_role("link", name="shop.StuckAgain")).to_be_visible()
    expect(news).to_have_count(0)


def test_they_are_shown_when_the_pointer_leaves(overview: Page) -> None:
    row_of(overview).hover()
    bury("shop.Stuck")
    expect(overview.locator(".pgqueue-news")).to_have_count(1)

    overview.mouse.move(2, 2)

    expect(overview.get_by_role("link", name="shop.Stuck")).to_be_visible()
    expect(overview.locator(".pgqueue-news")).to_have_count(0)


def test_a_row_with_the_keyboard_focus_stays_where_it_is(overview: Page) -> None:
    link = overview.locator("[data-section=channels] tbody a").first
    link.focus()
    before = place_of(link)

    bury("shop.Stuck")

    expect(overview.locator("[data-section=dead] .pgqueue-news")).to_be_visible()
    assert place_of(link) == before
    expect(link).to_be_focused()


def test_figures_under_the_pointer_go_on(overview: Page) -> None:
    row = row_of(overview)
    name = row.get_by_role("rowheader").inner_text()
    row.hover()
    assert name == "tests.jobs.add"

    jobs.add.enqueue(1)
    drain()

    expect(row.locator("td").nth(1)).to_have_text("41")
