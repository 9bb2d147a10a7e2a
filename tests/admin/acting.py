"""What tests do in the admin, and read on its pages."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from django.http import HttpResponse
from django.test import Client

MESSAGES = "/admin/pgqueue/message/"
HISTORY = "/admin/pgqueue/history/"
BULK = f"{MESSAGES}bulk/"


def choose(
    client: Client, action: str, ids: Iterable[int], *, across: bool = False, query: str = ""
) -> Any:
    """Choose an action for some rows of the list, or for all of them."""
    return client.post(
        f"{MESSAGES}{query}",
        {
            "action": action,
            "index": "0",
            "select_across": str(int(across)),
            "_selected_action": list(ids),
        },
        follow=True,
    )


def confirm(client: Client, page: HttpResponse, *, query: str = "") -> Any:
    """Say yes on the page that asks whether an action is meant."""
    context: Any = page.context  # type: ignore[attr-defined]
    return client.post(
        f"{MESSAGES}{query}",
        {
            "action": context["operation"].name,
            "ids": context["ids"],
            "_selected_action": context["any_id"],
        },
        follow=True,
    )


def act(client: Client, action: str, ids: Iterable[int]) -> Any:
    """Choose an action, and confirm it if asked."""
    page = choose(client, action, ids)
    return confirm(client, page) if "ids" in page.context else page


def told(response: Any) -> list[str]:
    """Return what the page reports."""
    return [str(message) for message in response.context["messages"]]


def shown_form(client: Client, path: str, **changed: str) -> dict[str, Any]:
    """Return the data that a browser posts for the form of a page, with some fields changed."""
    return {**fields_of(client.get(path)), **changed}


def fields_of(page: Any) -> dict[str, Any]:
    """Return the data that a browser posts for the form of a page."""
    form = page.context["adminform"].form
    parts = Inputs()
    parts.feed("".join(str(each) for each in form))
    return parts.data


class Inputs(HTMLParser):
    """Collects the values of a form's fields."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, str] = {}
        self._name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        is_box = given.get("type") == "checkbox"
        if tag in ("input", "select", "textarea") and (not is_box or "checked" in given):
            self._name = given["name"]
            self.data[self._name] = given.get("value", "on" if is_box else "")
        if tag == "option" and "selected" in given:
            self.data[self._name] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._name = ""

    def handle_data(self, data: str) -> None:
        if self._name and self.lasttag == "textarea":
            self.data[self._name] += data.removeprefix("\n")


def listed(client: Client, path: str) -> list[int]:
    """Return the ids on a page of a list."""
    response: Any = client.get(path)
    assert response.status_code == 200, response.status_code
    return [row.pk for row in response.context["cl"].result_list]
