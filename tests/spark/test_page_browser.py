"""The report's page in a browser: it fits a phone and a desktop, and its script works."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pgqueue.spark.page import render
from tests import programs
from tests.spark import reports

PHONE, DESKTOP = 360, 1440
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-sync", "--disable-background-networking", "--disable-component-update"),
    *("--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom"),
]
# A window can't be as narrow as a phone; a frame in it can.
WINDOW = """<!doctype html><meta charset="utf-8"><pre></pre>
<iframe style="width:{width}px; height:800px; border:0" srcdoc="{page}"></iframe>
<script>
document.querySelector("iframe").addEventListener("load", (event) => {{
  const page = event.target.contentDocument;
  const found = {{width: page.documentElement.scrollWidth}};
  const figure = page.querySelector("figure[data-readout]");
  if (figure) {{
    const frame = figure.querySelector(".frame");
    const right = figure.querySelector("svg").getBoundingClientRect().right;
    const note = (name, happened) => {{
      frame.dispatchEvent(happened);
      found[name] = figure.querySelector(".time").textContent;
    }};
    note("pointer", new PointerEvent("pointermove", {{clientX: right}}));
    found.legend = figure.querySelector("output").textContent;
    note("away", new PointerEvent("pointerleave"));
    note("key", new KeyboardEvent("keydown", {{key: "ArrowRight"}}));
  }}
  document.querySelector("pre").textContent = JSON.stringify(found);
}});
</script>
"""


def opened(page: str, width: int, folder: Path) -> tuple[dict[str, Any], str]:
    """Open a page; return what was found out in it, and what the browser logged."""
    chromium = programs.find("chromium", package="chromium")
    file = folder / "window.html"
    file.write_text(WINDOW.format(width=width, page=html.escape(page)), "utf-8")
    done = subprocess.run(
        [chromium, *OPTIONS, f"--user-data-dir={folder / 'profile'}", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found = re.search(r"<pre>(.+?)</pre>", done.stdout)
    assert found, done.stderr
    return json.loads(html.unescape(found[1])), done.stderr


@pytest.mark.spark
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("report", [reports.busy(), reports.empty()], ids=["busy", "empty"])
def test_the_page_is_not_wider_than_the_screen(
    report: reports.Report, width: int, tmp_path: Path
) -> None:
    found, log = opened(render(report), width, tmp_path)

    assert found["width"] <= width
    assert "CONSOLE" not in log


@pytest.mark.spark
def test_pointer_and_arrow_keys_choose_the_values_that_a_plot_shows(tmp_path: Path) -> None:
    busy = reports.busy()
    over_time = busy.tables["over_time"].tail(200)

    found, _ = opened(
        render(busy._replace(tables={**busy.tables, "over_time": over_time})), DESKTOP, tmp_path
    )

    assert found["pointer"].replace("\u202f", " ") == "24 Nov 09:20"
    assert found["legend"] != ""
    assert found["away"] == ""
    assert found["key"].replace("\u202f", " ") == f"{over_time['at'].iloc[0]:%-d %b %H:%M}"
