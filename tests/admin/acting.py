"""What tests do in the admin, and read on its pages."""

from __future__ import annotations

from collections.abc import Iterable
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


def listed(client: Client, path: str) -> list[int]:
    """Return the ids on a page of a list."""
    response: Any = client.get(path)
    assert response.status_code == 200, response.status_code
    return [row.pk for row in response.context["cl"].result_list]
