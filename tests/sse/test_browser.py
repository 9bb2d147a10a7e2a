"""Streams in a real browser: `EventSource` in headless Chromium, and the shop's pages."""

from __future__ import annotations

from decimal import Decimal
from signal import SIGKILL

import pytest
from playwright.sync_api import Browser, Page, expect

from pgqueue import publish, publish_many
from testproject.shop.demo.mailserver import MailServer
from testproject.shop.demo.model import Model
from testproject.shop.events import OrderPlaced
from testproject.shop.models import Refund
from tests.processes import starting, worker
from tests.sse import serving

pytestmark = pytest.mark.browser

FOLLOW = """
(address) => {
  window.seen = [];
  window.events = new EventSource(address);
  const position = (event) => event.lastEventId.split("-")[0];
  const note = (event) => window.seen.push([event.type, position(event), event.data]);
  for (const name of ["a.b", "pgqueue.reset", "pgqueue.ready"]) {
    window.events.addEventListener(name, note);
  }
}
"""
COUNT = "(name) => window.seen.filter(([type]) => type === name).length"


def follow(page: Page, server: serving.Process, address: str) -> None:
    """Open a stream, from a page of the same host."""
    page.goto(f"http://127.0.0.1:{server.port}/blank/")
    page.evaluate(FOLLOW, address)
    ready(page)


def ready(page: Page, times: int = 1) -> None:
    page.wait_for_function(f"({COUNT})('pgqueue.ready') >= {times}")


def sees(page: Page, count: int) -> list[str]:
    """Wait for so many events; return their ids."""
    page.wait_for_function(f"({COUNT})('a.b') >= {count}")
    seen = page.evaluate("window.seen")
    assert "pgqueue.reset" not in [name for name, _, _ in seen]
    return [id for name, id, _ in seen if name == "a.b"]


def test_a_page_goes_on_across_a_restart_of_the_server_and_misses_nothing(page: Page) -> None:
    with serving.process() as server:
        follow(page, server, "/events/?topic=a.*")
        publish_many([("a.b", n) for n in range(5)])
        sees(page, 5)
        server.stop()
    publish_many([("a.b", n) for n in range(5, 50)])
    publish("other", "not wanted")

    with serving.process(port=server.port):
        ready(page, 2)
        publish_many([("a.b", n) for n in range(50, 55)])
        ids = sees(page, 55)

    assert ids == [str(n) for n in [*range(1, 51), *range(52, 57)]]


def test_a_page_that_missed_too_much_is_told_so_and_goes_on(page: Page) -> None:
    with serving.process() as server:
        follow(page, server, "/few/?topic=a.*")
        server.stop()
    publish_many([("a.b", n) for n in range(10)])

    with serving.process(port=server.port):
        ready(page, 2)
        publish("a.b", 10)
        page.wait_for_function(f"({COUNT})('a.b') >= 1")
        seen = [(name, id) for name, id, _ in page.evaluate("window.seen")]

    assert seen[1:] == [("pgqueue.reset", "10"), ("pgqueue.ready", "10"), ("a.b", "11")]


def test_a_page_does_not_come_back_where_it_may_not(page: Page) -> None:
    with serving.process() as server:
        page.goto(f"http://127.0.0.1:{server.port}/blank/")
        page.evaluate(FOLLOW, "/nobody/")

        page.wait_for_function("window.events.readyState === EventSource.CLOSED")


def test_the_shop_shows_orders_as_they_are_placed(browser: Browser, page: Page) -> None:
    with serving.process(settings="tests.settings") as server:
        address = f"http://127.0.0.1:{server.port}/shop/"
        page.goto(address)
        expect(page.get_by_role("status")).to_have_text("live")
        customer = browser.new_context().new_page()
        customer.goto(address)

        customer.get_by_role("button", name="3 × Tea").click()
        expect(page.locator("#orders li")).to_have_count(1)
        expect(page.locator("#orders li")).to_contain_text("ada@example.com 17.70")
        server.stop()
        expect(page.get_by_role("status")).to_have_text("connecting")
        publish(OrderPlaced(order_id=10**6, email="bob@example.com", total=Decimal(5)))

    with serving.process(port=server.port, settings="tests.settings"):
        expect(page.locator("#orders li")).to_have_count(2)
        expect(page.locator("#orders li").first).to_have_text("#1000000 bob@example.com 5")
        customer.context.close()


def test_the_shop_shows_how_far_the_packing_of_an_order_is(page: Page) -> None:
    with serving.process(settings="tests.settings") as server:
        page.goto(f"http://127.0.0.1:{server.port}/shop/")
        page.get_by_role("button", name="3 × Bread").click()
        expect(page.locator("output")).to_have_text("ready")

        with worker("--channel", "packing"):
            expect(page.locator("output")).to_have_text("3 in a box")

        assert page.locator("progress").evaluate("(bar) => [bar.value, bar.max]") == [3, 3]
        happened = page.locator("#message li").all_inner_texts()
        assert happened[0] == "waiting"
        assert happened[-1] == "ended"
        assert {"started", "progress"} <= set(happened)
        # It is closed: a browser that came back would be told again.
        page.wait_for_timeout(3500)
        assert page.locator("#message li").all_inner_texts() == happened


def test_the_agent_of_the_shop_is_killed_half_way_and_a_click_approves(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = ("--channel", "agents")
    with (
        serving.process(settings="tests.settings") as server,
        Model(holds=True) as model,
        MailServer() as mails,
    ):
        monkeypatch.setenv("MODEL_URL", model.url)
        monkeypatch.setenv("EMAIL_HOST", mails.host)
        monkeypatch.setenv("EMAIL_PORT", str(mails.port))
        page.goto(f"http://127.0.0.1:{server.port}/shop/")
        page.get_by_role("button", name="3 × Bread").click()
        page.get_by_role("link", name="All orders").click()
        page.get_by_role("button", name="It came broken").first.click()
        talk = page.url
        with starting(*agents, forked=False, project="tests.settings", lease=2) as first:
            expect(page.locator("output")).to_have_text("The customer paid 9.60.")
            first.signal(SIGKILL)
        model.release()

        with starting(*agents, forked=False, project="tests.settings", lease=2):
            page.get_by_role("link", name="A person must agree").click()
            expect(page.get_by_role("heading")).to_contain_text("Pay 9.60 back for order")
            assert not Refund.objects.exists()
            page.get_by_role("button", name="Pay back").click()
            expect(page.get_by_role("status")).to_contain_text("Your answer was sent")
            page.goto(talk)
            expect(page.locator("output")).to_contain_text("9.60 was paid back")

    assert [str(each.amount) for each in Refund.objects.all()] == ["9.60"]
    assert model.asked == {0: 1, 1: 2, 2: 1}
