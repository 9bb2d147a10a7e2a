"""Collect the arguments of several calls in one waiting message: `on_conflict="collect"`.

The task takes one list. A second call with the same dedupe key adds its items to the list of the
message that waits, and one run gets them all. The payload is read, joined and written again in
Python, since it may be encrypted. `engine.collecting` locks the message for this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from pgqueue.codec.arguments import Codec, size
from pgqueue.codec.envelope import is_envelope
from pgqueue.codec.hints import signature_of
from pgqueue.codec.joining import items_in, payload_of
from pgqueue.exceptions import DecryptionFailed, InvalidArguments, InvalidTask, UnreadablePayload

MOST_ITEMS = 1000
"""Items of a list after which the message collects no more."""
MOST_BYTES = 1024 * 1024
"""Bytes of a stored list after which the message collects no more."""
NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def parameter_of(function: Callable[..., Any], *, skip_first: bool) -> Parameter:
    """Return the only parameter of a task that collects.

    Args:
        skip_first: whether the first parameter is the context.

    Raises:
        InvalidTask: the task has no parameter, or several.
    """
    parameters = list(signature_of(function).parameters.values())[skip_first:]
    if len(parameters) != 1 or parameters[0].kind not in NAMED:
        raise InvalidTask(
            f"{function.__qualname__}: on_conflict='collect' adds the items of a second call to "
            "the list of the first: the function must have one parameter, a list: "
            "def index(ids: list[int])."
        )
    return parameters[0]


@dataclass(frozen=True, kw_only=True)
class Join:
    """Joins the payloads of a task's messages.

    Args:
        name: the task of the new messages.
        aliases: its older names.
        codec: writes its payloads.
        parameter: its only parameter.
        is_encrypted: whether its payloads are encrypted.
    """

    name: str
    aliases: Collection[str]
    codec: Codec
    parameter: Parameter
    is_encrypted: bool

    def check(self, payloads: Sequence[str]) -> None:
        """Check that each new message has one list.

        Raises:
            InvalidArguments: the argument of one of them is no list.
        """
        for each in payloads:
            if items_in(self.codec.opened(each), self.parameter) is None:
                raise InvalidArguments(
                    f"argument {self.parameter.name!r} of {self.name} must be a list, since "
                    "on_conflict='collect' adds the items of a second call to it."
                )

    def __call__(self, task: str, stored: str, new: str) -> str | None:
        """Return the payload of a waiting message with the items of a new one.

        Args:
            task: the name of the task of the waiting message.
            stored, new: the stored payloads of both, which may be encrypted.

        Returns:
            None: the waiting message stays as it is, since its list is full or unreadable.

        Raises:
            InvalidTask: the waiting message is of another task.
        """
        if task != self.name and task not in self.aliases:
            raise InvalidTask(
                f"{self.name} can't collect: the message with its dedupe key is of "
                f"{task or 'no task'}. Give each task a dedupe key, or a channel, of its own."
            )
        if is_envelope(stored) and not self.is_encrypted:
            return None  # the joined list would show what is encrypted now
        try:
            first = items_in(self.codec.opened(stored), self.parameter)
        except (DecryptionFailed, UnreadablePayload):
            return None
        second = items_in(self.codec.opened(new), self.parameter)
        if first is None or second is None or first.number + second.number > MOST_ITEMS:
            return None
        plain = payload_of(first, second, self.parameter)
        if size(plain) > MOST_BYTES:
            return None
        joined = self.codec.closed(plain)
        return joined if size(joined) <= MOST_BYTES else None
