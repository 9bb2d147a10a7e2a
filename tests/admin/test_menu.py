"""The queue's part of the admin's menu."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client

from pgqueue.admin import OverviewAdmin
from pgqueue.models import Channel, Group, Overview

pytestmark = pytest.mark.django_db


def names(client: Client, path: str = "/admin/") -> dict[str, list[str]]:
    """Return the names of the models in the menu of a page, by their apps."""
    context: Any = client.get(path).context
    return {
        app["app_label"]: [model["name"] for model in app["models"]]
        for app in context["available_apps"]
    }


@pytest.mark.parametrize("path", ["/admin/", "/admin/pgqueue/", "/admin/pgqueue/message/"])
def test_the_overview_is_first_and_the_others_are_sorted(admin_client: Client, path: str):
    first, *others = names(admin_client, path)["pgqueue"]

    assert first == "Overview"
    assert others == sorted(others)


def test_the_menu_has_one_entry_named_groups(admin_client: Client):
    every = [name for models in names(admin_client).values() for name in models]

    assert every.count("Groups") == 1
    assert "Consumer groups" in every


def test_who_may_not_see_the_overview_has_no_entry_for_it(login: Any):
    assert names(login("view_message"))["pgqueue"] == ["Messages"]


def test_a_site_keeps_its_own_order_of_apps(rf: Any):
    class Reversed(admin.AdminSite):
        def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
            return super().get_app_list(request, app_label)[::-1]

    site = Reversed()
    site.register([Channel, Group])
    site.register(User)
    site.register(Overview, OverviewAdmin)
    OverviewAdmin(Overview, site)  # a second time
    request = rf.get("/")
    request.user = User(username="root", is_superuser=True, is_active=True, is_staff=True)

    apps = site.get_app_list(request)

    assert [app["app_label"] for app in apps] == ["pgqueue", "auth"]
    shown = [model["name"] for model in apps[0]["models"]]
    assert shown == ["Overview", "Channels", "Consumer groups"]
