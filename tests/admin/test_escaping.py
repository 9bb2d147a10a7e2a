"""Texts that others have stored, on every page: shown as what they are, and no part of the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.places import ROOT, Place, World, make_world, places

HOSTILE = "javascript:alert(0)//\"><img src=x onerror=alert(1)>'<script>alert(2)</script>{{ 7 }}"
ODD = "a\nb/c_5F %2F?d=e#f&g;é\\"

pytestmark = pytest.mark.django_db


class Page(HTMLParser):
    """What a page is made of.

    Attributes:
        scripts: what is run as code by a tag, or by an attribute of one.
        links: addresses, as they are written.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.links: set[str] = set()
        self._is_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._is_script = tag == "script" and given.get("type") != "application/json"
        self.scripts += [value for name, value in given.items() if name.startswith("on")]
        self.scripts += [tag for name in ("src",) if given.get(name) == "x"]
        found = [given[name] for name in ("href", "action", "formaction") if name in given]
        self.scripts += [each for each in found if each.strip().lower().startswith("javascript:")]
        self.links.update(found)

    def handle_data(self, data: str) -> None:
        if self._is_script and data.strip():
            self.scripts.append(data)


def pages_of(answer: Any) -> list[Page]:
    """Return the HTML of an answer: of one that is JSON, of each text in it."""
    body = answer.content.decode()
    is_json = answer.headers["Content-Type"].startswith("application/json")
    return [Page(each) for each in (texts(json.loads(body)) if is_json else [body])]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def first_pages(world: World) -> Iterator[str]:
    """Yield the address of each page, and of lists and questions that the text narrows."""
    of_key = {"channel": world.text, "key": world.text}
    chosen = {**of_key, "task": world.text, "error": world.text}
    queries: dict[str, list[dict[str, str]]] = {
        "": [{"q": world.text}, {"channel": world.text, "task": world.text}],
        "key/": [of_key],
        "bulk/": [{"action": name, **chosen} for name in ("cancel", "discard", "replay")],
        **{each: [{"name": world.text}] for each in ("page/", "purge/", "trim/")},
        "<path:object_id>/again/": [{"step": world.text}],
        "<path:object_id>/operate/": [{"action": name} for name in ("cancel", "retry")],
    }
    yield "/admin/"
    for place in sorted(places() - {Place("overview", "stream/")}):
        if place.pattern not in queries or place.pattern == "":
            yield world.path(place)
        for query in queries.get(place.pattern, []):
            if "task" not in query or place.model in ("message", "history"):
                yield world.path(place, **query)
    for of in ("discarding", "purging"):
        path = world.path(Place("message", "bulk/<int:id>/"))
        yield path.replace(f"/{world.keys['replaying']}/", f"/{world.keys[of]}/")


def posts(world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what makes pages that only a form leads to."""
    text = world.text
    lists = {
        "message": ("cancel", "discard"),
        "channel": ("pause", "delete_selected"),
        "policy": ("delete_selected",),
        "schedule": ("run_now", "delete_selected"),
        "group": ("resume", "rebuild", "delete_selected"),
        "subscription": ("resume", "delete_selected"),
        "webhook": ("send_test", "replay", "rotate", "delete_selected"),
    }
    for model, actions in lists.items():
        for action in actions:
            chosen = {"action": action, "_selected_action": world.keys[model]}
            yield world.path(Place(model, "")), chosen
    wrong = dict.fromkeys(
        ("name", "channel", "task", "cron", "every", "timezone", "url", "secret", "topics", "where")
        + ("predicate", "params", "headers", "backoff", "serializer", "args", "kwargs", "start")
        + ("key", "split_by", "scope", "per", "rate", "move_to", "batch", "priority", "timeout"),
        text,
    )
    for model in ("channel", "policy", "schedule", "group", "subscription", "webhook"):
        for pattern in ("add/", "<path:object_id>/change/"):
            yield world.path(Place(model, pattern)), wrong
    policy = {"channel": text, "scope": "key", "key": f"{text} new", "max_running": "1", "per": "1"}
    yield world.path(Place("policy", "add/")), policy
    purge = world.path(Place("channel", "purge/"), name=text)
    yield purge, {"states": ["ready"]}


@pytest.mark.parametrize(
    "text", [HOSTILE, pytest.param(ODD, marks=pytest.mark.nightly)], ids=["hostile", "odd"]
)
@pytest.mark.slow
def test_no_text_becomes_a_part_of_a_page_and_each_link_leads_somewhere(text: str) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser(f"root {text[:9]}"))
    world = make_world(text)
    waiting, asked = list(first_pages(world)), set[str]()

    while waiting:
        path = waiting.pop()
        if path in asked:
            continue
        asked.add(path)
        answer: Any = client.get(path)
        assert answer.status_code in (200, 302, 403), (answer.status_code, path)
        if answer.status_code == 302:
            # Django's answer to a row that is not there. No event has a text for a position.
            is_there = answer.headers["Location"] != "/admin/"
            assert is_there or path.startswith(f"{ROOT}event/"), path
            continue
        for page in pages_of(answer):
            assert page.scripts == [], path
            waiting += [each for link in page.links if (each := ours(path, link))]
    for path, data in posts(world):
        answer = client.post(path, data, follow=True)
        assert answer.status_code in (200, 400), path
        assert [page.scripts for page in pages_of(answer)] == [[]], path


def ours(path: str, link: str) -> str | None:
    """Return where a link of a page leads, if that is another page about the same rows."""
    target = urljoin(path, link).partition("#")[0].partition("?_changelist_filters=")[0]
    # Each list is narrowed and turned in many ways: they show the same rows.
    is_list = target.partition("?")[0].count("/") == ROOT.count("/") + 1
    is_other = "channel=operations" in target or (is_list and "?" in target)
    return target if target.startswith(ROOT) and not is_other else None
