"""The queue's part of the admin's menu: the overview first, and a name of its own for groups."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

APP = "pgqueue"
FIRST = "Overview"
ARRANGED = "is_arranged_by_pgqueue"


def arrange(site: Any) -> None:
    """Have a site list the overview first among the queue's models.

    Django sorts models by their names, and a site may have its own order of apps: only the order
    inside the queue's part is changed. Groups are named so that they differ from Django's groups
    of users.
    """
    build = site.get_app_list
    if hasattr(build, ARRANGED):
        return

    @wraps(build)
    def get_app_list(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        apps = build(request, *args, **kwargs)
        for app in apps:
            if app["app_label"] == APP:
                _arrange(app["models"])
        return apps

    setattr(get_app_list, ARRANGED, True)
    site.get_app_list = get_app_list


def _arrange(models: list[dict[str, Any]]) -> None:
    for each in models:
        if each["object_name"] == "Group":
            each["name"] = _("Consumer groups")
    models.sort(key=lambda each: (each["object_name"] != FIRST, each["name"]))
