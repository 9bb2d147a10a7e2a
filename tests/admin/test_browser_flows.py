"""The pages of flows in headless Chromium, which loads nothing of another host."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from pgqueue.models import Flow, Message
from pgqueue.states import State
from tests import stored_flows as flows
from tests.admin.test_browser_pages import fits, page  # noqa: F401
from tests.browsing import shoot
from tests.stored_flows import Member

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DONE = "succeeded"


def report(**changed: object) -> flows.Stored:
    """Store a shop's report of the night: one download is dead."""
    downloads = [
        Member("shop.reports.download", DONE, (1,), 6 + n % 5, 9 + n % 5 + n / 40)
        for n in range(47)
    ]
    return flows.store(
        "nightly-report",
        [
            Member("shop.reports.lock_books", DONE, (), 0.4, 2.1),
            Member("shop.reports.list_stores", DONE, (0,), 2.3, 5.8),
            *downloads,
            Member("shop.reports.download", "dead", (1,), 6.1),
            Member("shop.reports.rates", DONE, (0,), 2.4, 41.0),
            Member("shop.reports.convert", DONE, (50, 1), 41.3, 96.2),
            Member("shop.reports.totals", "held", range(2, 50)),
            Member("shop.reports.forecast", "running", (51,), 96.5),
            Member("shop.reports.page", "held", (52, 53)),
            Member("shop.reports.archive", "held", (54, 0), on_failure="run"),
        ],
        **changed,
    )


def test_a_flow_is_drawn_in_light_and_dark_and_on_a_phone(page: Page) -> None:  # noqa: F811
    report()
    page.goto("/admin/pgqueue/flow/")
    page.get_by_role("link", name="nightly-report").click()

    expect(
        page.get_by_role("group", name="The messages of the flow nightly-report")
    ).to_be_visible()
    expect(page.get_by_role("link", name="1 dead", exact=True)).to_be_visible()
    page.set_viewport_size({"width": 1760, "height": 900})
    shoot(page.locator("#content"), "flow")
    page.emulate_media(color_scheme="dark")
    fits(page)
    assert page.evaluate("document.querySelector('.pgqueue-graph').scrollWidth") > 390


def test_an_open_page_takes_over_what_changes_until_the_flow_has_ended(page: Page) -> None:  # noqa: F811
    stored = flows.store("short", [Member("shop.one", State.RUNNING, (), 0)])
    page.goto(stored.path)
    expect(page.locator("svg .said")).to_have_text("▶ Running")

    Message.objects.filter(flow_id=stored.id).update(state=State.DEAD)

    expect(page.locator("svg .said")).to_have_text("✗ Dead")
    expect(page.get_by_text("Can't go on: messages are dead")).to_be_visible()
    Flow.objects.update(ended_at=timezone.now())
    expect(page.locator("[data-section=state]").locator(".pgqueue-lead")).to_have_text("Has ended")


def test_a_node_leads_to_its_messages_by_the_mouse_and_by_the_keyboard(page: Page) -> None:  # noqa: F811
    stored = report()
    page.goto(stored.path)
    page.locator("svg a").filter(has_text="download").click()
    expect(page.get_by_role("row", name="shop.reports.download")).to_have_count(1)

    page.goto(stored.path)
    page.locator("svg").get_by_role("link", name="shop.reports.forecast").focus()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="What happened to it")).to_be_visible()


def test_its_dead_messages_are_retried_by_clicks(page: Page) -> None:  # noqa: F811
    stored = report()
    page.goto(stored.path)

    page.get_by_role("link", name="Replay its dead messages …").click()
    expect(page.get_by_text("This is done to 1 message.")).to_be_visible()
    page.get_by_role("button", name="Yes, replay").click()

    expect(page.get_by_text("1 replayed.")).to_be_visible()
    assert not Message.objects.filter(flow_id=stored.id, state=State.DEAD).exists()


def test_labels_are_in_their_nodes_in_a_language_from_right_to_left(
    page: Page,  # noqa: F811
    settings: Any,
) -> None:
    settings.LANGUAGE_CODE = "ar"
    stored = report()

    page.goto(stored.path)

    expect(page.locator("html")).to_have_attribute("dir", "rtl")
    outside = page.evaluate(
        """[...document.querySelectorAll("svg .node")].flatMap((node) => {
            const frame = node.querySelector(".frame").getBoundingClientRect();
            return [...node.querySelectorAll("text")].filter((text) => {
                const its = text.getBoundingClientRect();
                return its.width && (its.left < frame.left || its.right > frame.right + 2);
            }).map((text) => text.textContent);
        })"""
    )
    assert outside == []
