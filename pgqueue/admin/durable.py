"""The operations on one message: its signals, steps and forks if its task is durable; its rerun."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import BadRequest, ObjectDoesNotExist, PermissionDenied
from django.db import DatabaseError, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.fields import JSONTextField
from pgqueue.admin.links import page_url
from pgqueue.admin.signal_form import SignalForm
from pgqueue.admin.steps import Link, durable_task, known_task, steps_of, url_of
from pgqueue.codec.json_text import with_decimals
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.guard import TransactionLost
from pgqueue.database.paths import own_path
from pgqueue.database.savepoints import savepoints
from pgqueue.durable.seen import SeenSteps
from pgqueue.engine import dead, steps
from pgqueue.exceptions import PGQueueError
from pgqueue.operating import bulk
from pgqueue.redaction import MASK, Hidden, is_masked
from pgqueue.states import State
from pgqueue.tasks import scheduling, tenants
from pgqueue.tasks.definition import Task
from pgqueue.tasks.signalling import signal
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import is_own

logger = logger_of(__name__)

VERBS = ("signal", "again", "fork", "rerun")
"""The names of the pages. History has only the last two."""
OF_ENDED = ("fork", "rerun")
MessageView = Callable[[HttpRequest, Any], HttpResponse]


class ArgumentsForm(forms.Form):
    """The arguments of a fork or a rerun; it shows no stored ones, which may be secret."""

    arguments = JSONTextField(
        label=gettext_lazy("Other arguments"),
        required=False,
        help_text=gettext_lazy('As a payload: {"args": [7], "kwargs": {}}. Empty: its own.'),
        parse_float=Decimal,
    )

    def clean_arguments(self) -> dict[str, Any] | None:
        """Return the arguments by their names, if they have the form of a payload."""
        given = self.cleaned_data["arguments"]
        if given is None:
            return None
        is_payload = isinstance(given, dict) and not given.keys() - {"args", "kwargs"}
        args, kwargs = (given.get("args", []), given.get("kwargs", {})) if is_payload else (0, 0)
        if not (isinstance(args, list) and isinstance(kwargs, dict)):
            raise forms.ValidationError(
                _('An object with "args", a list, and "kwargs", an object.')
            )
        if is_masked(given):
            raise forms.ValidationError(
                _("Write a value in the place of each %s: all are stored anew.") % MASK
            )
        return {"args": args, "kwargs": kwargs}


class DurableAdmin(QueueAdmin):
    """Has the pages of operations on one message, live or ended."""

    verbs: tuple[str, ...] = OF_ENDED

    def get_urls(self) -> list[URLPattern]:
        views = {
            "signal": self.signal_view,
            "again": self.again_view,
            "fork": self.fork_view,
            "rerun": self.rerun_view,
        }
        name = f"pgqueue_{self.opts.model_name}"
        own = [
            path(
                f"<path:object_id>/{verb}/",
                self.admin_site.admin_view(self._of_message(views[verb])),
                name=f"{name}_{verb}",
            )
            for verb in self.verbs
        ]
        return [*own, *super().get_urls()]

    def may_operate(self, request: HttpRequest) -> bool:
        """Return whether the user may change messages."""
        return request.user.has_perm("pgqueue.operate_message")

    def verb_links(self, request: HttpRequest, message: Any, found: SeenSteps) -> list[Link]:
        """Return the user's operations on a message, beside the operations on its steps."""
        model, task = message._meta.model_name, known_task(message.task)
        if task is None or not self.may_operate(request):
            return []
        links: list[Link] = []
        if task.durable and "signal" in self.verbs and message.state != State.DEAD:
            links += [
                (url_of(model, message.pk, "signal", name=name), _("Send the signal “%s” …") % name)
                for name in found.awaited
                if not name.startswith("@")
            ]
            links.append((url_of(model, message.pk, "signal"), _("Send a signal …")))
        if task.durable:
            links.append((url_of(model, message.pk, "fork"), _("Fork …")))
        if getattr(message, "state", State.DEAD) == State.DEAD and message.task not in bulk.TASKS:
            links.append((url_of(model, message.pk, "rerun"), _("Enqueue it once more …")))
        return links

    def gone(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer for a message that does not exist, or has ended since its page was shown.

        Raises:
            Http404: it does not exist.
        """
        raise Http404

    def signal_view(self, request: HttpRequest, message: Any) -> HttpResponse:
        """Show a form for a signal; or send it."""
        if durable_task(message.task) is None:
            return self._refuse(request, message)
        sent = request.POST if request.method == "POST" else None
        # The user may have changed the name that the form had at first.
        name = (request.GET if sent is None else sent).get("name", "").replace("\0", "").strip()
        form = SignalForm(
            sent,
            name=name,
            kind=steps_of(message, Hidden(())).type_of(name),
        )
        if not form.is_valid():
            words = _("The run gets it when it waits for it, now or later.")
            return self._ask(request, message, _("Send a signal"), words, form)
        given = form.cleaned_data

        def send() -> str:
            with transaction.atomic(using=settings().database):
                is_sent = signal(
                    message.pk,
                    given["name"],
                    given["payload"],
                    dedupe_id=given["dedupe_id"],
                    database=settings().database,
                )
            said = _("The signal “%s” was sent.") if is_sent else _("“%s” was sent before.")
            return str(said % given["name"])

        return self._do(request, message, send)

    def again_view(self, request: HttpRequest, message: Any) -> HttpResponse:
        """Ask whether a step is done again; or have it done."""
        name = _step_of(request, "step")
        if name is None:
            raise BadRequest("step: the name of a step.")
        if request.method != "POST":
            words = _(
                "What is stored of the step “%s” is removed, and a run begins now. All other steps "
                "stay as they are, later ones, too. Effects outside are not undone."
            )
            return self._ask(request, message, _("Do a step again"), words % name, is_final=True)

        def do() -> str:
            with transaction.atomic(using=settings().database), borrow(settings().database) as own:
                was = steps.again(own, message.pk, name)
                if was == State.DEAD:
                    dead.replay(own, [message.pk])
            if was is None:
                raise NothingDone(_("Nothing was done: it runs now, or has no such step."))
            return _("The step “%s” is done again.") % name

        return self._do(request, message, do)

    def fork_view(self, request: HttpRequest, message: Any) -> HttpResponse:
        """Ask whether a message is forked, and with which arguments; or fork it."""
        after = _step_of(request, "after")
        task = durable_task(message.task)
        if task is None:
            return self._refuse(request, message)
        form = _form_of(request, message)
        if not form.is_valid():
            words = _("A new message begins with the steps of this one, up to “%s”.") % after
            if after is None:
                words = _("A new message begins with all steps that this one has done.")
            return self._ask(request, message, _("Fork"), words, form)

        def fork() -> str:
            given = form.cleaned_data.get("arguments")
            args, kwargs = (None, None) if given is None else _decoded(task, message, given)
            forked = _result(task, message.pk).fork(after=after, args=args, kwargs=kwargs)
            if after is None:
                return str(_("Forked as #%s.") % forked.id)
            said = {"id": forked.id, "after": after}
            return str(_("Forked as #%(id)s, after the step “%(after)s”.") % said)

        return self._do(request, message, fork)

    def rerun_view(self, request: HttpRequest, message: Any) -> HttpResponse:
        """Ask whether a message is enqueued once more; or do it."""
        task = known_task(message.task)
        if task is None or message.task in bulk.TASKS:
            return self._refuse(request, message)
        form = _form_of(request, message)
        if not form.is_valid():
            words = _("A new message of its task is enqueued. None of its steps is copied.")
            return self._ask(request, message, _("Enqueue it once more"), words, form)

        def rerun() -> str:
            given = form.cleaned_data.get("arguments")
            if given is None:
                again = _result(task, message.pk).rerun()
                return str(_("Enqueued once more as #%s.") % again.id)
            args, kwargs = _decoded(task, message, given)
            again = _result(task, message.pk).rerun(args=args, kwargs=kwargs)
            return str(_("Enqueued once more as #%s, with other arguments.") % again.id)

        return self._do(request, message, rerun)

    def _of_message(self, view: MessageView) -> Callable[[HttpRequest, str], HttpResponse]:
        """Return a view of a message's id, for users who may see it and operate."""

        def viewed(request: HttpRequest, object_id: str) -> HttpResponse:
            if not (self.has_view_permission(request) and self.may_operate(request)):
                raise PermissionDenied
            message = self.get_object(request, unquote(object_id))
            if message is None:
                return self.gone(request, object_id)
            return view(request, message)

        return viewed

    def _ask(
        self,
        request: HttpRequest,
        message: Any,
        title: str,
        words: str,
        form: forms.Form | None = None,
        *,
        is_final: bool = False,
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "original": message,
            "words": words,
            "form": form,
            "is_final": is_final,
            "page": _page_of(message),
            "back": page_url(f"{self.opts.model_name}_changelist"),
        }
        return TemplateResponse(request, "admin/pgqueue/message/verb.html", context)

    def _refuse(self, request: HttpRequest, message: Any) -> HttpResponse:
        """Say that a message is of no task that can do this, and go back to its page."""
        words = _("“%s” is not known here, or not durable.") % message.task
        self.message_user(request, words, messages.ERROR)
        return HttpResponseRedirect(_page_of(message))

    def _do(self, request: HttpRequest, message: Any, verb: Callable[[], str]) -> HttpResponse:
        """Do an operation, log and report it, and go back to the page of the message."""
        try:
            with savepoints():
                said = verb()
        except TransactionLost:
            raise
        except (PGQueueError, ObjectDoesNotExist) as error:
            self.message_user(request, str(error), messages.ERROR)
        except (DatabaseError, psycopg.Error):  # such as a table that is missing in the tenant
            logger.exception("The operation on the message %d failed", message.pk)
            failed = _("The database has failed. The server's log has the error.")
            self.message_user(request, failed, messages.ERROR)
        else:
            LogEntry.objects.create(
                user_id=request.user.pk,  # type: ignore[misc]
                content_type=ContentType.objects.get_for_model(type(message)),
                object_id=message.pk,
                object_repr=str(message)[:200],
                action_flag=CHANGE,
                change_message=said,
            )
            self.message_user(request, said)
        return HttpResponseRedirect(_page_of(message))


class NothingDone(PGQueueError):
    """An operation has changed nothing."""


def _form_of(request: HttpRequest, message: Any) -> forms.Form:
    """Return the form of a fork or a rerun.

    pgqueue's own tasks keep their arguments: a delivery with others would be signed as an event of
    this project that never happened.
    """
    given = request.POST if request.method == "POST" else None
    return forms.Form(given) if is_own(message.task) else ArgumentsForm(given)


def _step_of(request: HttpRequest, parameter: str) -> str | None:
    return request.GET.get(parameter, "").replace("\0", "") or None


def _result(task: Any, id: int) -> Any:
    own: Task[Any, Any] = task.using(database=settings().database)
    return own.get_result(id)


def _decoded(task: Any, message: Any, payload: Any) -> Any:
    """Return other arguments of a message as its task gets them in the message's tenant.

    Raises:
        UnreadablePayload, InvalidArguments: they do not fit the task.
        ObjectDoesNotExist: the row of a model instance is gone.
        TenantUnavailable, InvalidTenant: the project refuses the tenant, or gives it no name.
    """
    args, kwargs = with_decimals(payload["args"]), with_decimals(payload["kwargs"])
    with own_path(), tenants.around_stored(message.pk, message.metadata):
        return scheduling.arguments(task, args, kwargs)


def _page_of(message: Any) -> str:
    return reverse(f"admin:pgqueue_{message._meta.model_name}_change", args=[message.pk])
