"""A page that follows the log while its web server and the database are killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, sync_playwright

from tests import programs
from tests.chaos.harness.logstage import LogStage
from tests.chaos.harness.server import nap
from tests.sse.serving import free_port

FOLLOW = """
() => {
  window.ids = [];
  window.resets = [];
  window.times = 0;
  const events = new EventSource("/events/");
  events.addEventListener("chaos.published", (event) => {
    window.ids.push(parseInt(event.lastEventId));
  });
  events.addEventListener("pgqueue.reset", (event) => window.resets.push(event.data));
  events.addEventListener("pgqueue.ready", () => { window.times += 1; });
}
"""


@contextmanager
def opened(address: str) -> Iterator[Page]:
    """A page in a browser that ends with the block."""
    chromium = programs.find("chromium", package="chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(address)
        yield page
        browser.close()


@pytest.mark.chaos
@pytest.mark.browser
def test_a_page_sees_each_event_once_across_restarts_of_its_server_and_of_the_database(
    log_stage: LogStage,
) -> None:
    stage = log_stage
    port = free_port()
    stage.publisher(rate=30)
    web = stage.web_server(port)
    with opened(f"http://127.0.0.1:{port}/") as page:
        page.evaluate(FOLLOW)
        page.wait_for_function("window.ids.length > 20")

        for number, fault in enumerate([signal.SIGKILL, signal.SIGTERM, "killed", "fast"], 2):
            if isinstance(fault, signal.Signals):
                web.signal(fault)
                web.exit_status()
                nap(stage.random.uniform(0, 1))
                web = stage.web_server(port)
                page.wait_for_function(f"window.times >= {number}")
            else:
                stage.server.stop(fault)
                nap(stage.random.uniform(0, 1))
                stage.server.start()
            seen = page.evaluate("window.ids.length")
            page.wait_for_function(f"window.ids.length > {seen + 20}")

        came_to = stage.end_log()
        head = int(came_to.split()[0])
        page.wait_for_function(f"window.ids.at(-1) === {head}")
        ids, resets = page.evaluate("[window.ids, window.resets]")
    web.kill()

    assert resets == []
    assert ids == list(range(ids[0], head + 1))
