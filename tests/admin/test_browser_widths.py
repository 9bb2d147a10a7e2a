"""No page of the admin is wider than its screen, whatever is stored."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser

from pgqueue.engine import run_statistics
from pgqueue.models import Message
from tests.admin.places import make_world
from tests.admin.test_accessibility import addresses, open_page
from tests.factories import Connection
from tests.management.test_stats import counted

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = f"shop.warehouse.tasks.{'x' * 90}"
WIDTHS = (390, 1024, 1280)
PAST_THE_EDGE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.timeout(400)  # dozens of pages
def test_no_word_makes_a_page_wider_than_its_screen(browser: Browser, live_server: Any) -> None:
    page = open_page(browser, live_server.url)
    wide, checked = list[str](), 0
    try:
        paths = list(addresses(LONG))
        log = f"/admin/pgqueue/message/{Message.objects.dead().latest('pk').pk}/history/"
        for path in [*paths, log]:
            answer = page.goto(path, wait_until="domcontentloaded")
            assert answer is not None
            for width in WIDTHS if answer.ok else ():
                page.set_viewport_size({"width": width, "height": 800})
                checked += 1
                if (past := page.evaluate(PAST_THE_EDGE)) > 0:
                    wide.append(f"{path} at {width}: {past} pixels more")
    finally:
        page.context.close()

    assert not wide, "\n".join(wide)
    assert checked > 90


CUT_OFF = """[...document.querySelectorAll(".results, .pgqueue-wide")].map((each) =>
    each.scrollWidth - each.clientWidth).filter((more) => more > 0)"""
LISTS = ("message", "history", "flow", "worker", "overview")


def test_no_column_is_cut_off_in_german_beside_the_menu_and_with_tenants(
    browser: Browser, live_server: Any, queue: Connection, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": "tests.admin.test_tenants.some"}
    make_world()
    counts = counted(succeeded=1, failed=1)._replace(channel="mail", task="shop.tasks.send_receipt")
    run_statistics.add(queue, [counts], source=uuid4(), batch=1)
    run_statistics.fold(queue)
    page = open_page(browser, live_server.url, locale="de")
    page.set_viewport_size({"width": 1280, "height": 800})
    try:
        for name in LISTS:
            page.goto(f"/admin/pgqueue/{name}/")
            assert page.locator("html").get_attribute("lang") == "de"
            assert page.locator("tbody tr").count(), name
            assert page.evaluate(CUT_OFF) == [], name
    finally:
        page.context.close()


def test_a_time_reads_from_left_to_right_in_every_language(
    browser: Browser, live_server: Any, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "ar"
    make_world()
    page = open_page(browser, live_server.url, locale="ar")
    try:
        page.goto("/admin/pgqueue/overview/")
        assert page.locator("html").get_attribute("dir") == "rtl"
        day, time = page.evaluate(
            """(() => {
                const cell = document.querySelector("[data-section=dead] .pgqueue-moment");
                const places = document.createRange();
                const [day, time] = [cell.firstElementChild.firstChild, cell.lastChild];
                return [day, time].map((each) => {
                    places.selectNodeContents(each);
                    return places.getBoundingClientRect().left;
                });
            })()"""
        )
        assert day < time
        page.goto("/admin/pgqueue/message/")
        assert page.locator("#result_list .pgqueue-time").first.get_attribute("dir") == "ltr"
    finally:
        page.context.close()
