"""Chromium, for tests that are marked `browser`: its fixtures, and screenshots for the docs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

PATIENCE = 20_000
"""Milliseconds."""
COLOURS = 256
SCREENSHOTS = Path(__file__).parent.parent / "docs" / "screenshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as it is installed."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    chromium = programs.find("chromium", package="chromium")
    # Playwright keeps an event loop in this thread, until after the tables are swept.
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose scripts must raise nothing."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == [], complaints


def shoot(shown: Page | Locator, name: str) -> None:
    """Make a screenshot for the docs, if PGQUEUE_SCREENSHOTS is set: no test changes files else.

    Args:
        shown: a page, or a part of a page that is long.
    """
    if not os.environ.get("PGQUEUE_SCREENSHOTS"):
        return
    from PIL import Image

    whole = {"full_page": True} if hasattr(shown, "goto") else {}
    taken = Image.open(BytesIO(shown.screenshot(**whole)))
    # Pages have few colours, but for the shades of their letters: half of the bytes is enough.
    few = taken.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    SCREENSHOTS.mkdir(exist_ok=True)
    few.save(SCREENSHOTS / f"{name}.png", optimize=True)
