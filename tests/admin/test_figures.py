"""Numbers are written as the language of the page writes them, and times are in its zone."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

from pgqueue import admin
from pgqueue.templatetags.pgqueue_admin import duration, figure, grouped
from tests.admin.conftest import EVERY_VIEW, Connection, Login
from tests.factories import enqueue


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["1,234,567", "21.5 s", "120 ms", "1,230", "0.0123", "7.4"]),
        ("de", ["1.234.567", "21,5 s", "120 ms", "1.230", "0,0123", "7,4"]),
    ],
)
def test_figures_are_written_as_the_language_does(language: str, expected: list[str]) -> None:
    with translation.override(language):
        found = [
            grouped(1234567),
            duration(21.5),
            duration(timedelta(milliseconds=120)),
            figure(1234.5),
            figure(0.012345),
            grouped(7.4, places=1),
        ]

    assert found == expected


def test_no_page_formats_a_number_by_python() -> None:
    by_python = re.compile(r":,|:\.\d|%\.\d|%,")
    sources = [*Path(admin.__file__).parent.glob("*.py"), Path(duration.__code__.co_filename)]

    found = {
        f"{path.name}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if by_python.search(line) and "isoformat" not in line and '":.3g}"' not in line
    }

    # `figure` rounds by it, before it writes the number as the language does.
    assert found == {
        'pgqueue_admin.py: return number_format(Decimal(f"{value:.3g}"), force_grouping=True)'
    }


@pytest.mark.django_db
def test_charts_are_in_the_zone_of_the_tables(login: Login, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"

    page: Any = login("view_overview").get("/admin/pgqueue/overview/")

    assert page.context["live"]["zone"] == "Asia/Kolkata"


OWN_PAGES = ("overview/", "channel/page/?name=default", "message/key/?channel=default&key=")
CRUMBS = re.compile(r'<(\w+) class="breadcrumbs">(.*?)</\1>', re.DOTALL)
LINK = re.compile(r'<a href="([^"]*)">')


@pytest.mark.parametrize("path", OWN_PAGES)
def test_breadcrumbs_have_the_markup_of_djangos_own(
    queue: Connection, login: Login, path: str
) -> None:
    enqueue(queue)
    viewer = login(*EVERY_VIEW, "view_overview")
    django_ = CRUMBS.search(viewer.get("/admin/pgqueue/message/").content.decode())

    own = CRUMBS.search(viewer.get(f"/admin/pgqueue/{path}").content.decode())

    assert django_ and own
    assert own[1] == django_[1]
    assert ("<li" in own[2], "&rsaquo;" in own[2]) == (
        "<li" in django_[2],
        "&rsaquo;" in django_[2],
    )
    assert ('aria-current="page"' in own[2]) == ('aria-current="page"' in django_[2])
    steps = ["/admin/", "/admin/pgqueue/"]
    if path != "overview/":
        steps.append(f"/admin/pgqueue/{path.partition('/')[0]}/")
    assert [each.partition("?")[0] for each in LINK.findall(own[2])] == steps
