"""Arguments and results of Celery's kind as JSON: what is no JSON becomes what Celery makes of it.

What pgqueue's codec takes is written by that, and comes back as what it was. What it refuses, since
it would come back as something else, is written as Celery's JSON writes it: numbers as keys become
text, subclasses their base, lazy texts plain ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils.functional import Promise

from pgqueue.codec.arguments import Codec
from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.group_result import GroupResult
from pgqueue.exceptions import InvalidArgument, InvalidProgress, InvalidResult, PGQueueError


class CeleryCodec(Codec):
    """The codec of a task's function.

    Args:
        typing: refuse a call that doesn't fit the function; otherwise, its run fails.
    """

    def __init__(self, func: Callable[..., Any], *, skip_first: bool, typing: bool) -> None:
        super().__init__(func, skip_first=skip_first)
        self._typing = typing

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the payload for calling the function with these arguments."""
        try:
            return super().encode(args, kwargs)
        except InvalidArgument:
            args, kwargs = self._simplified("an argument", (args, kwargs), InvalidArgument)
        return super().encode(args, kwargs)

    def encode_result(self, value: Any) -> str:
        """Return as JSON what the function returned; of another result, what it is found by."""
        try:
            return super().encode_result(value)
        except InvalidResult:
            found_by = value.as_tuple() if isinstance(value, AsyncResult | GroupResult) else value
            simple = self._simplified("the result", found_by, InvalidResult)
        return super().encode_result(simple)

    def encode_progress(self, data: Any) -> str:
        """Return as JSON what a run noted."""
        try:
            return super().encode_progress(data)
        except InvalidProgress:
            simple = self._simplified("the progress", data, InvalidProgress)
        return super().encode_progress(simple)

    def check_fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check that the function can be called so, if the task wants that."""
        if self._typing:
            super().check_fit(args, kwargs)

    def check_known(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_encrypted: bool = False
    ) -> None:
        """Check that the function has a parameter for each argument, if the task wants that."""
        if self._typing:
            super().check_known(args, kwargs, is_encrypted=is_encrypted)

    def _simplified(self, what: str, value: Any, refusal: type[PGQueueError]) -> Any:
        try:
            return simplified(value)
        except RecursionError:
            text = f"{self._of(what)} is nested too deeply, or contains itself."
            raise refusal(text) from None


def simplified(value: Any) -> Any:
    """Return a value with what Celery's JSON makes of what is in it; all else as it is."""
    if isinstance(value, dict):
        return {_key(name): simplified(each) for name, each in value.items()}
    if isinstance(value, list):
        return [simplified(each) for each in value]
    if isinstance(value, tuple):
        return tuple(simplified(each) for each in value)
    if isinstance(value, Promise):
        return str(value)
    written = getattr(type(value), "__json__", None)
    return value if written is None else simplified(written(value))


def _key(name: Any) -> Any:
    return json.dumps(name) if name is None or isinstance(name, int | float) else name
