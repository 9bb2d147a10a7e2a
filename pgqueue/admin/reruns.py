"""Enqueue chosen messages of history once more."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.operations import MessageOperation, ask, operate
from pgqueue.engine.operate import BATCH, Operated
from pgqueue.exceptions import ChannelFull
from pgqueue.models import History
from pgqueue.operating.reruns import rerun_each

LOOK_FOR = 1.0
"""The most seconds for which messages are looked for, to enqueue everything that is found."""


def rerun_all(rows: QuerySet[History]) -> Operated:
    """Enqueue messages once more, in the order of their ids; skip messages of a full channel.

    Returns:
        The ids of the messages that have a rerun.
    """
    done = set[int]()
    # An error undoes all of them: the user is told that none was enqueued, and may try again.
    with transaction.atomic(using=rows.db):
        for id in rows.order_by("pk").values_list("pk", flat=True):
            with suppress(ChannelFull):
                again = rerun_each([id], database=rows.db)
                done |= {earlier for earlier, new in again if new is not None}
    return Operated(frozenset(done))


RERUN = MessageOperation(
    name="rerun",
    run=rerun_all,
    label=gettext_lazy("Enqueue once more"),
    done=gettext_lazy("enqueued once more"),
    states=(),
    otherwise=gettext_lazy(
        "of a task that is not known here, of a channel that is full, or of a flow whose results "
        "are gone"
    ),
    warning=gettext_lazy("Each is a new message with the same arguments: its task runs again."),
)


def rerun(
    admin: QueueAdmin, request: HttpRequest, queryset: QuerySet[History]
) -> HttpResponse | None:
    """Enqueue the chosen messages once more, or first ask the user to confirm it."""
    if "ids" in request.POST or request.POST.get("select_across", "0") == "0":
        return operate(admin, request, queryset, RERUN)
    ids, is_all = _found(admin, request)
    if is_all:
        return ask(admin, request, ids, RERUN)
    text = _(
        "Nothing was enqueued: there are too many messages to look through them here. Choose "
        "fewer, or use the command pgqueue_rerun with filters."
    )
    if len(ids) > BATCH:
        text = _(
            "Nothing was enqueued: these are more than %d messages. Choose fewer, or use the "
            "command pgqueue_rerun with filters."
        ) % (BATCH,)
    admin.message_user(request, text, messages.WARNING)
    return None


def _found(admin: QueueAdmin, request: HttpRequest) -> tuple[list[int], bool]:
    """Return ids that the filters of a list find, beyond its page, and whether they are all.

    No further stretch is read after more than `BATCH` ids, or after `LOOK_FOR` seconds.
    """
    until, ids = monotonic() + LOOK_FOR, list[int]()
    shown: Any = admin.get_changelist_instance(request)
    for stretch in shown.listing.stretches():
        ids += stretch.ids
        if len(ids) > BATCH or monotonic() > until:
            break
    return sorted(ids), stretch.is_all and len(ids) <= BATCH
