"""No page of the admin is wider than its screen, whatever is stored."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser

from pgqueue.models import Message
from tests.admin.test_accessibility import addresses, open_page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = f"shop.warehouse.tasks.{'x' * 90}"
WIDTHS = (390, 1024, 1280)
PAST_THE_EDGE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.timeout(400)  # dozens of pages
def test_no_word_makes_a_page_wider_than_its_screen(browser: Browser, live_server: Any) -> None:
    page = open_page(browser, live_server.url, "light")
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
