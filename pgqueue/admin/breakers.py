"""The circuit breakers of a channel and its keys, in words."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _

from pgqueue.admin.links import to_row
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import breakers
from pgqueue.engine.breakers import BreakerSeen
from pgqueue.values.instants import local


def seen(channel: str, *, keys: Sequence[str] | None = None) -> list[BreakerSeen]:
    """Return the breakers that have counted a failure, of a channel or of some of its keys."""
    with borrow(settings().database) as connection:
        return breakers.seen(connection, channel, keys=keys)


def scope_of(each: BreakerSeen) -> str:
    """Return the part of the channel that a breaker stops, in words."""
    return _("the key “%s”") % each.key if each.key else _("the channel as a whole")


def in_words(request: HttpRequest, each: BreakerSeen) -> str:
    """Return the state of a breaker and its failures, in words."""
    said = _("%(failures)s of %(most)s failures lately") % {
        "failures": each.failures,
        "most": each.most,
    }
    return format_html("{}; {}", _state(request, each), said)


def _state(request: HttpRequest, each: BreakerSeen) -> str:
    if each.state == "open" and each.open_until:
        until = f"{local(each.open_until):%Y-%m-%d %H:%M:%S %Z}"
        return format_html(_("open until {}"), format_html("<time>{}</time>", until))
    if each.state == "probing":
        probe = to_row(request, "message", each.probe_id, f"#{each.probe_id}")
        return format_html(_("it waits for the end of {}"), probe)
    return _("closed") if each.state == "closed" else _("one message is tried next")
