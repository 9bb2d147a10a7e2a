"""What is in messages, and what lets one in, is on no page of those who may not see it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission

from pgqueue.models import History, Message, Webhook
from tests.admin.conftest import Login
from tests.admin.places import Place, make_world, places

SECRET = "only-for-a-few"

pytestmark = pytest.mark.django_db


def all_but(*models: str) -> list[str]:
    """Return all permissions but those on some models."""
    ours = Permission.objects.filter(content_type__app_label="pgqueue")
    return list(ours.exclude(content_type__model__in=models).values_list("codename", flat=True))


def shown(login: Login, codenames: list[str]) -> set[Place]:
    """Return the pages that show what is secret to somebody with these permissions."""
    client, world = login(*codenames), make_world()
    content = {"args": [SECRET], "kwargs": {SECRET: SECRET}}
    errors = [{"class": "Oops", "message": SECRET, "traceback": SECRET}]
    for model in (Message, History):
        model.objects.filter(task="mail").update(payload=content, errors=errors)
    History.objects.update(result=content)
    Webhook.objects.update(
        url=f"https://example.com/{SECRET}", headers={"Token": SECRET}, secret=f"whsec_{SECRET}"
    )
    pages = {
        each: client.get(world.path(each, channel="mail", name="mail", key="mail"))
        for each in places()
        if each.pattern not in ("stream/", "")
    }
    pages |= {each: client.get(world.path(each)) for each in places() if each.pattern == ""}
    assert any(answer.status_code == 200 for answer in pages.values())
    return {each for each, answer in pages.items() if SECRET in answer.content.decode()}


def test_of_messages_the_overview_alone_shows_errors_to_who_may_not_see_them(login: Login) -> None:
    # It has a permission of its own, which says so.
    assert {each.model for each in shown(login, all_but("message", "history", "webhook"))} == {
        "overview"
    }


def test_of_webhooks_only_those_who_may_change_them_see_urls_and_headers(login: Login) -> None:
    nothing_else = ["view_webhook", "operate_webhook", "view_overview", "view_subscription"]

    assert {each.model for each in shown(login, nothing_else)} == {"overview"}


def test_who_may_see_them_does(login: Login) -> None:
    found = shown(login, ["view_message", "view_history", "change_webhook"])

    assert {each.model for each in found} == {"message", "history", "webhook"}
