"""The admin's pages in a real browser, which goes on with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from pgqueue.admin import overview_stream
from pgqueue.streams import source
from tests import jobs
from tests.browsing import shoot
from tests.eventually import eventually
from tests.sse.serving import Server, serving

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

OVERVIEW = "/admin/pgqueue/overview/"


@pytest.fixture
def server(settings: Any) -> Iterator[Server]:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    settings.ROOT_URLCONF = "tests.admin.urls"
    settings.MIDDLEWARE = ["tests.admin.urls.strict", *settings.MIDDLEWARE]
    with serving() as server:
        yield server
    source.end_all()


@pytest.fixture
def admin(page: Page, server: Server) -> Iterator[Page]:
    """A page of a superuser who has logged in."""
    User.objects.create_superuser("operator", password="secret")
    page.goto(f"http://127.0.0.1:{server.port}/admin/")
    page.get_by_label("Username").fill("operator")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()
    yield page
    page.goto("about:blank")
    # Or the server cancels a stream that is about to end, and Django leaves a file open.
    eventually(source.is_unused)


def drain() -> None:
    call_command("runworker", "--drain", verbosity=0)


def make_something_to_see() -> None:
    for number in range(40):
        jobs.add.enqueue(number)
    for each in ("the host is unknown", "the host is unknown", "450 mailbox busy"):
        jobs.fail.using(max_attempts=2).enqueue(each)
    drain()
    jobs.keyed.using(channel="mail", run_after=3600).enqueue(1)
    jobs.add.using(channel="mail").enqueue(1)


def test_the_overview_goes_on_by_itself(admin: Page, server: Server) -> None:
    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")
    expect(admin.get_by_text("Nothing ran.").first).to_be_visible()

    jobs.fail.using(max_attempts=1).enqueue("no use")
    drain()

    group = admin.get_by_role("link", name="builtins.ValueError")
    expect(group).to_be_visible()
    expect(admin.locator("#pgqueue-live")).to_have_text("Live")
    group.click()
    expect(admin.get_by_text("tests.jobs.fail").first).to_be_visible()


def test_the_overview_says_when_it_is_not_live(admin: Page, server: Server) -> None:
    admin.route("**/overview/stream/**", lambda route: route.abort())

    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")

    expect(admin.locator("#pgqueue-live")).to_contain_text("Not live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_overview_fits_and_is_under_a_strict_policy(
    admin: Page,
    server: Server,
    scheme: Any,
) -> None:
    make_something_to_see()
    refused: list[str] = []
    admin.on("console", lambda message: refused.append(message.text))
    admin.emulate_media(color_scheme=scheme)
    admin.set_viewport_size({"width": 1280, "height": 900})

    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")

    expect(admin.locator("#pgqueue-runs canvas")).to_be_visible()
    if scheme == "light":
        shoot(admin, "overview")
    admin.set_viewport_size({"width": 390, "height": 844})
    width = admin.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    if scheme == "dark":
        shoot(admin, "overview-phone")
    assert [text for text in refused if "Content Security Policy" in text] == []


def test_a_chart_that_is_not_drawn_anew_yet_makes_the_overview_no_wider(
    admin: Page, server: Server
) -> None:
    admin.add_init_script("window.ResizeObserver = class { observe() {} }")
    admin.set_viewport_size({"width": 1280, "height": 900})
    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")
    expect(admin.locator("#pgqueue-runs canvas")).to_be_visible()

    admin.set_viewport_size({"width": 390, "height": 844})

    assert admin.evaluate("document.querySelector('#pgqueue-runs canvas').clientWidth") > 390
    assert admin.evaluate("document.documentElement.scrollWidth") <= 390


def test_charts_take_the_width_that_the_page_has(admin: Page, server: Server) -> None:
    admin.set_viewport_size({"width": 1280, "height": 900})
    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")
    expect(admin.locator("#pgqueue-runs canvas")).to_be_visible()

    admin.set_viewport_size({"width": 390, "height": 844})

    admin.wait_for_function("document.querySelector('#pgqueue-runs canvas').clientWidth <= 390")


def test_without_scripts_the_overview_says_the_same(
    browser: Browser, server: Server, client: Client
) -> None:
    make_something_to_see()
    client.force_login(User.objects.create_superuser("reader"))
    context = browser.new_context(java_script_enabled=False)
    session = client.cookies["sessionid"].value
    host = f"http://127.0.0.1:{server.port}"
    context.add_cookies([{"name": "sessionid", "value": session, "url": host}])
    page = context.new_page()

    page.goto(f"{host}{OVERVIEW}")

    expect(page.get_by_role("rowheader", name="tests.jobs.add").first).to_be_visible()
    context.close()


def test_a_chart_is_said_in_words_to_those_who_do_not_see_it(admin: Page, server: Server) -> None:
    make_something_to_see()

    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")

    expect(admin.locator("canvas")).to_have_count(2)
    expect(admin.get_by_role("img", name="46 runs, 6 failed.")).to_be_visible()
    expect(admin.get_by_role("img", name="Mean wait")).to_be_visible()
    assert admin.evaluate(
        "[...document.querySelectorAll('#content-main :is(canvas, svg, img)')]"
        ".every((each) => each.closest('[role=img][aria-label]') || each.alt || each.ariaHidden)"
    )
    jobs.add.enqueue(1)
    drain()
    expect(admin.get_by_role("img", name="48 runs")).to_be_visible()


def test_nothing_moves_for_those_who_want_less_motion(admin: Page, server: Server) -> None:
    make_something_to_see()
    admin.emulate_media(reduced_motion="reduce")

    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")

    expect(admin.locator("#pgqueue-runs canvas")).to_be_visible()
    moving = admin.evaluate(
        "[...document.querySelectorAll('.pgqueue-page *')].map((each) => getComputedStyle(each))"
        ".filter((it) => it.animationName !== 'none' || parseFloat(it.transitionDuration))"
        ".length"
    )
    assert moving == 0


def test_a_page_says_when_it_may_not_be_seen_any_more(
    admin: Page, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_stream, "ASKED_EVERY", timedelta())
    admin.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")
    expect(admin.locator("#pgqueue-live")).to_have_text("Live")

    User.objects.update(is_active=False)

    expect(admin.locator("#pgqueue-live")).to_contain_text("Log in again")


def test_charts_have_the_times_of_the_tables(
    browser: Browser, server: Server, settings: Any
) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    jobs.add.enqueue(1)
    drain()
    client = Client()
    client.force_login(User.objects.create_superuser("viewer"))
    context = browser.new_context(timezone_id="America/New_York")
    session = client.cookies["sessionid"].value
    context.add_cookies(
        [{"name": "sessionid", "value": session, "domain": "127.0.0.1", "path": "/"}]
    )
    page = context.new_page()
    page.add_init_script(
        """
        window.drawn = [];
        const fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
            window.drawn.push(text);
            return fill.call(this, text, ...rest);
        };
        """
    )

    page.goto(f"http://127.0.0.1:{server.port}{OVERVIEW}")

    page.wait_for_function("window.drawn.some((text) => /^[0-9]+:[0-9]+[ap]m$/.test(text))")
    drawn = [
        datetime.strptime(text, "%I:%M%p").time()
        for text in page.evaluate("window.drawn")
        if text.endswith(("am", "pm"))
    ]
    last = timezone.now().astimezone(ZoneInfo("Asia/Kolkata"))
    minutes = {(last - timedelta(minutes=ago)).time().replace(second=0, microsecond=0)
               for ago in range(70)}  # fmt: skip
    assert drawn
    assert set(drawn) <= minutes
    page.goto("about:blank")
    context.close()
    eventually(source.is_unused)
