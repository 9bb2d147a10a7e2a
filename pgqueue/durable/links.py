"""Signed links by which people answer a durable run: in a mail, in a chat, on a page.

A link is a capability: whoever has it may answer, unless the project's `authorize` says otherwise.
A GET only shows a page, so that a scanner of mails answers nothing. A POST sends the signal, once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias

from django.core import signing
from django.core.exceptions import ObjectDoesNotExist
from django.db import connections
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.http import require_http_methods

from pgqueue.codec.arguments import UNREADABLE
from pgqueue.codec.encoding import ANYTHING
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.durable.records import Records
from pgqueue.durable.suspending import Until
from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Claim
from pgqueue.exceptions import (
    DecryptionFailed,
    InvalidArgument,
    InvalidStep,
    MessageEnded,
    UnknownTask,
)
from pgqueue.models import Step, StoredSignal
from pgqueue.states import State
from pgqueue.tasks import encryption, registry, signalling
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.error_words import shown
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

SALT = "pgqueue.durable.links"
LINK = "link"
"""The name of its part of a message, for encryption."""
URL_NAME = "pgqueue_signal"
TEMPLATE = "pgqueue/signal.html"
LONGEST = 1_900
"""Characters of a link's signed part: mail programs and browsers take URLs of 2 000."""
LONGEST_TEXT = 1_000
"""Characters of a text that a person fills in."""
WEEK = timedelta(days=7)

Answer: TypeAlias = "bool | HttpResponse | None"
Page = Literal["ask", "sent", "repeated", "ended", "expired", "invalid", "denied", "refused"]
STATUS: Mapping[Page, int] = {
    "ended": 410,
    "expired": 410,
    "invalid": 404,
    "denied": 403,
    "refused": 400,
}


@dataclass(frozen=True)
class SignalLink:
    """A link that was opened, with the values for the decision of `authorize`.

    Attributes:
        message_id, task: the message that the signal is for, and the name of its task.
        name, payload: the signal.
        recipient: the person that the link was made for; "": nobody in particular.
        text, label: the question on the page, and the label of its button.
        fields: the names of the texts to fill in.
    """

    message_id: int
    task: str
    name: str
    payload: Any
    recipient: str
    text: str
    label: str
    fields: tuple[str, ...]


Authorize: TypeAlias = Callable[[HttpRequest, SignalLink], Answer]


class LinkedRun(Protocol):
    """The run that makes a link: a `DurableContext`."""

    task: Declaration[Any, Any]
    claim: Claim
    database: str
    records: Records


class Linking:
    """The part of a `DurableContext` that makes links."""

    def signal_url(
        self: LinkedRun,
        name: str,
        payload: Any = None,
        *,
        expires: float | timedelta | datetime = WEEK,
        text: str = "",
        label: str = "",
        fields: Sequence[str] = (),
        recipient: str = "",
    ) -> str:
        """Return a signed link that sends a signal to this message: `wait_for(name)` gets it.

        Its page asks for a confirmation. Links of one name and recipient are one question
        until the next wait. The first answer counts, until this wait is over. "Yes" and "no" are
        two links with one name and two payloads. The link is signed and not secret: its holder
        may read the payload, unless the task is encrypted.

        Args:
            name: the name of the signal.
            payload: its payload.
            expires: seconds, a timedelta or an aware datetime, after which the link is refused.
            text: the question on the page. Default: the name of the signal.
            label: the label of the button. Default: Confirm.
            fields: names of texts that the person fills in. They are added to the payload, which is
                a dict then.
            recipient: the person that the link is for, such as a mail address. Links of different
                recipients are different questions.

        Returns:
            A URL below `PGQUEUE["BASE_URL"]`; without this setting, its path.

        Raises:
            InvalidStep: an option is invalid, or the project's urls do not include
                `pgqueue.durable.urls`.
            InvalidArgument: the payload is not storable, or the link would be too long.
        """
        if isinstance(fields, str) or not all(isinstance(each, str) for each in fields):
            raise InvalidStep(f"fields={fields!r:.99} of a link: it must be a list of names.")
        if fields and not isinstance(payload, dict | None):
            raise InvalidStep(
                "fields= of a link: its payload must be a dict, which they are added to."
            )
        signalling.check_name(name)
        plain = signalling.encoded(name, payload)
        if self.task.encrypted:
            plain = encryption.enveloped(self.task.name, LINK, plain)
        given = {
            "id": self.claim.id,
            "by": self.database,
            "name": name,
            "payload": json.loads(plain),
            "until": _until(expires).timestamp(),
            "question": [_continued(self.claim.metadata), self.records.waits_passed(name)],
            "text": text,
            "label": label,
            "fields": list(fields),
            "recipient": recipient,
        }
        token = signing.dumps(
            {key: each for key, each in given.items() if each or key == "payload"},
            salt=SALT,
            compress=True,
        )
        if len(token) > LONGEST:
            raise InvalidArgument(
                f"The link for the signal {name!r} would have {len(token):,} characters, more than "
                f"{LONGEST:,}: give it a shorter payload or text, or store the data elsewhere."
            )
        try:
            path = reverse(URL_NAME, args=[token])
        except NoReverseMatch as error:
            raise InvalidStep(
                'signal_url() needs a page: path("signals/", include("pgqueue.durable.urls")) in '
                "the project's urls."
            ) from error
        return settings().base_url.rstrip("/") + path


def _until(expires: Any) -> datetime:
    until = Until.checked("expires=", expires)
    if until.time is None and until.delay is None:
        raise InvalidStep(
            "expires=None: a link needs an end. Give seconds, a timedelta or a datetime."
        )
    return until.time or timezone.now().astimezone(UTC) + (until.delay or timedelta())


def _continued(metadata: str | bytes | Mapping[str, Any]) -> int:
    """Return the number of a message's `continue_as`; 0 for a producer's own text of this name."""
    plain = metadata if isinstance(metadata, Mapping) else json.loads(metadata)
    number = plain.get("continued")
    return number if isinstance(number, int) else 0


def link_view(*, authorize: Authorize | None = None) -> Callable[..., HttpResponse]:
    """Return the view of the links that `DurableContext.signal_url` makes.

        path("signals/<str:token>/", link_view(authorize=may_answer), name="pgqueue_signal")

    `pgqueue.durable.urls` has this path without `authorize`: whoever has a link may answer. The
    template `pgqueue/signal.html` is the page; a project may have its own.

    Args:
        authorize: a function of the request and a `SignalLink`. It returns True, or an HttpResponse
            in place of the page, such as a redirect to a login. For False or None, the answer is
            403.

    Raises:
        TypeError: `authorize` is no function.
    """
    if authorize is not None and not callable(authorize):
        raise TypeError(f"authorize={shown(authorize)}: it must be a function, or None.")

    @never_cache
    @xframe_options_deny
    @require_http_methods(["GET", "HEAD", "POST"])
    def view(request: HttpRequest, token: str) -> HttpResponse:
        opened = _opened(token)
        if isinstance(opened, str):
            return _page(request, opened)
        if (refusal := _refusal(authorize, request, opened.link)) is not None:
            return refusal
        if request.method != "POST":
            return _page(request, "repeated" if opened.is_answered() else "ask", opened.link)
        return _page(request, opened.send(request.POST), opened.link)

    return view


@dataclass(frozen=True)
class _OpenedLink:
    link: SignalLink
    alias: str
    dedupe_id: str

    def is_answered(self) -> bool:
        """Whether this link, or another one of its question, was used."""
        sent = StoredSignal.objects.using(self.alias).filter(dedupe_id=self.dedupe_id)
        return sent.filter(message_id=self.link.message_id).exists()

    def is_over(self, passed: int) -> bool:
        """Whether the wait for the answer is over, so that a later wait would take it.

        Several waits may follow links of several recipients: then one without an answer ends them.

        Args:
            passed: the number of waits for the signal before the link was made.
        """
        waits = Step.objects.using(self.alias).filter(
            message_id=self.link.message_id, kind="signal"
        )
        done = waits.filter(state="done").annotate(was_in_vain=Q(result__isnull=True))
        rows = done.order_by("number").values_list("signals", "was_in_vain")
        over = [in_vain for names, in_vain in rows if self.link.name in (names or ())][passed:]
        return any(over) if self.link.recipient else bool(over)

    def send(self, form: Mapping[str, str]) -> Page:
        """Send the signal, with the texts of the form; return the page that tells of it."""
        link = self.link
        payload = link.payload
        if link.fields:
            texts = {
                name: form.get(name, "").replace("\0", "")[:LONGEST_TEXT] for name in link.fields
            }
            payload = {**(payload or {}), **texts}
        try:
            is_new = signalling.signal(
                link.message_id,
                link.name,
                payload,
                dedupe_id=self.dedupe_id,
                database=self.alias,
            )
        except MessageEnded:
            return "ended"
        except InvalidArgument as error:
            return _refused(link.message_id, error)
        return "sent" if is_new else "repeated"


def _opened(token: str) -> _OpenedLink | Page:
    """Return the link of a token; if its message takes no signal, the page that says why."""
    try:
        given = signing.loads(token, salt=SALT)
        alias = given["by"]
        connection = connections[alias]
    except (signing.BadSignature, ConnectionDoesNotExist, LookupError, ValueError):
        return "invalid"
    if given["until"] <= timezone.now().timestamp():
        return "expired"
    found = lookup.find(connection, given["id"])
    question = given["question"]
    # After continue_as, the run may ask the same again: an old link is no answer to that.
    if found is None or found.state not in State or _continued(found.metadata) != question[0]:
        return "ended"
    try:
        link = _link(given, found)
    except (*UNREADABLE, UnknownTask, DecryptionFailed, ObjectDoesNotExist) as error:
        return _refused(found.id, error)
    opened = _OpenedLink(link, alias, _dedupe_id(link, question))
    return "ended" if opened.is_over(question[1]) and not opened.is_answered() else opened


def _refused(id: int, error: Exception) -> Page:
    """Log that an answer is refused; return the page that tells of it."""
    # The text of the error may quote the payload.
    logger.warning("A link for message %s: its answer is refused: %s", id, type(error).__name__)
    return "refused"


def _link(given: Mapping[str, Any], found: Found) -> SignalLink:
    """Return the link as `authorize` gets it.

    Raises:
        UnknownTask: the task is not known here.
        DecryptionFailed, ObjectDoesNotExist, ValueError, LookupError: its payload is not readable.
    """
    task = registry.find(found.task)
    if task is None:
        raise UnknownTask(f"Message {found.id} is of {found.task!r}, which is not known here.")
    payload = given["payload"]
    plain = encryption.opened(task.name, LINK, payload) if task.encrypted else payload
    return SignalLink(
        message_id=given["id"],
        task=found.task,
        name=given["name"],
        payload=ANYTHING.read(plain),
        recipient=given.get("recipient", ""),
        text=given.get("text", ""),
        label=given.get("label", ""),
        fields=tuple(given.get("fields", ())),
    )


def _dedupe_id(link: SignalLink, question: Sequence[int]) -> str:
    text = json.dumps([link.name, link.recipient, *question])
    return f"link:{hashlib.sha256(text.encode()).hexdigest()}"


def _refusal(
    authorize: Authorize | None, request: HttpRequest, link: SignalLink
) -> HttpResponse | None:
    answer = True if authorize is None else guard.call(authorize, request, link)
    if isinstance(answer, HttpResponse):
        return answer
    if answer is None or answer is False:
        return _page(request, "denied")
    if answer is not True:
        raise TypeError(
            f"authorize returned {shown(answer)}: it must return True, False or an HttpResponse."
        )
    return None


def _page(request: HttpRequest, page: Page, link: SignalLink | None = None) -> HttpResponse:
    response = render(request, TEMPLATE, {"page": page, "link": link}, status=STATUS.get(page, 200))
    # The address is the capability: no other site is told of it, and no search engine keeps it.
    # With "no-referrer", browsers post `Origin: null`, which Django refuses.
    response["Referrer-Policy"] = "same-origin"
    response["X-Robots-Tag"] = "noindex"
    return response
