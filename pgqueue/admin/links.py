"""Links to pages of the admin, if the user may see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.http import urlencode


def to_row(request: HttpRequest, model: str, pk: Any, label: Any = None) -> str:
    """Return a link to the page of a queue's row; only its label, if the user may not see it."""
    text = str(pk) if label is None else label
    if not request.user.has_perm(f"pgqueue.view_{model}"):
        return format_html("{}", text)
    url = reverse(f"admin:pgqueue_{model}_change", args=[quote(pk)])
    return format_html('<a href="{}">{}</a>', url, text)


def to_page(name: str, label: Any, /, **query: Any) -> str:
    """Return a link to a page or a list of the queue."""
    return format_html('<a href="{}">{}</a>', page_url(name, **query), label)


def page_url(name: str, /, **query: Any) -> str:
    """Return the address of a page or a list, such as `channel_page` or `message_changelist`."""
    url = reverse(f"admin:pgqueue_{name}")
    return f"{url}?{urlencode(query)}" if query else url


def to_object(request: HttpRequest, site: Any, obj: Any) -> str:
    """Return a link to the page of a model instance; only its name, if the user may see no page."""
    its = site._registry.get(type(obj))
    if its is None or not its.has_view_permission(request, obj):
        return format_html("{}", f"{obj._meta.verbose_name} {obj.pk}")
    try:
        name = f"{site.name}:{obj._meta.app_label}_{obj._meta.model_name}_change"
        url = reverse(name, args=[quote(obj.pk)])
    except NoReverseMatch:
        return format_html("{}", obj)
    return format_html('<a href="{}">{} “{}”</a>', url, obj._meta.verbose_name, obj)


def with_urls(rows: Iterable[Any]) -> list[Any]:
    """Return rows with the addresses of their pages."""
    found = list(rows)
    for row in found:
        row.url = reverse(f"admin:pgqueue_{row._meta.model_name}_change", args=[row.pk])
    return found
