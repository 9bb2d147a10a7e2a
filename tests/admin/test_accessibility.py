"""Every page of ours in the admin against axe's rules for WCAG 2.1 AA: names, labels, contrast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page

from tests.admin.places import make_world
from tests.admin.test_escaping import first_pages
from tests.browsing import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
CONTENT = "#content-start"
"""What a page has inside Django's frame."""
AT_ONCE = "* { transition: none !important }"
"""No colour is between those of two schemes."""
OF_DJANGO = ("/admin/", "/delete/", "/history/")
"""How the addresses of pages end of which nothing is ours; but for the list of history."""


def addresses(text: str = "mail") -> Iterator[str]:
    """Yield the address of each page of ours, once. The text stands in every column."""
    seen = set[str]()
    for path in first_pages(make_world(text)):
        page = path.partition("?")[0]
        is_ours = not page.endswith(OF_DJANGO) or page == "/admin/pgqueue/history/"
        if is_ours and page not in seen:
            yield path
        if "?" in path or not page.endswith(("/page/", "/key/", "/bulk/", "/purge/", "/trim/")):
            seen.add(page)


def open_page(browser: Browser, url: str, *, locale: str | None = None) -> Page:
    """Return a page of an operator who may do everything."""
    client = Client()
    client.force_login(User.objects.create_superuser("operator"))
    context = browser.new_context(base_url=url, color_scheme="light", locale=locale)
    context.set_default_timeout(PATIENCE)
    name = django_settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": url}])
    return context.new_page()


def violations(page: Page, **rules: Any) -> Iterator[str]:
    """Yield what axe finds in a page, with the element that it is about.

    Args:
        rules: which to run, as `type` and `values`; none: all of the levels.
    """
    from axe_playwright_python.sync_playwright import Axe

    chosen = rules or {"type": "tag", "values": LEVELS}
    options = {"runOnly": chosen, "resultTypes": ["violations"], "preload": False}
    for found in Axe().run(page, context=CONTENT, options=options).response["violations"]:
        for node in found["nodes"]:
            yield f"{found['id']}: {node['html'][:300]}: {node['failureSummary']}"


# The scheme of colours matters to one rule alone: contrast.
@pytest.mark.timeout(400)  # dozens of pages
@pytest.mark.parametrize(
    ("scheme", "rules"),
    [
        ("light", {}),
        pytest.param(
            "dark", {"type": "rule", "values": ["color-contrast"]}, marks=pytest.mark.nightly
        ),
    ],
)
def test_no_page_violates_a_rule(
    browser: Browser, live_server: Any, scheme: Any, rules: dict[str, Any]
) -> None:
    page = open_page(browser, live_server.url)
    found: list[str] = []
    checked = 0
    try:
        for path in addresses():
            page.emulate_media(color_scheme=scheme)
            answer = page.goto(path)
            assert answer is not None
            if answer.ok and page.locator(CONTENT).count():
                checked += 1
                page.add_style_tag(content=AT_ONCE)
                found += [f"{path}: {each}" for each in violations(page, **rules)]
    finally:
        page.context.close()

    assert not found, "\n".join(found)
    assert checked > 30
