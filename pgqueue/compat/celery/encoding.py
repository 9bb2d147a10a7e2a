"""JSON of arguments and results: pgqueue's codec first, then the rules of Celery's JSON.

Values that pgqueue's codec accepts keep their types. The codec refuses other values, since JSON
would change their types. These are converted as in Celery: numbers as keys become text, subclasses
become their base class, and lazy texts become plain text.
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
        """Return a return value as JSON; a result object becomes its `as_tuple()`."""
        try:
            return super().encode_result(value)
        except InvalidResult:
            found_by = value.as_tuple() if isinstance(value, AsyncResult | GroupResult) else value
            simple = self._simplified("the result", found_by, InvalidResult)
        return super().encode_result(simple)

    def encode_progress(self, data: Any) -> str:
        """Return the progress of a run as JSON."""
        try:
            return super().encode_progress(data)
        except InvalidProgress:
            simple = self._simplified("the progress", data, InvalidProgress)
        return super().encode_progress(simple)

    def check_fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check that the arguments fit the function, unless the task's typing is false."""
        if self._typing:
            super().check_fit(args, kwargs)

    def check_known(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], payload: bytes = b""
    ) -> None:
        """Check that each argument has a parameter, unless the task's typing is false."""
        if self._typing:
            super().check_known(args, kwargs, payload)

    def _simplified(self, what: str, value: Any, refusal: type[PGQueueError]) -> Any:
        try:
            return simplified(value)
        except RecursionError:
            text = f"{self._of(what)} is nested too deeply, or contains itself."
            raise refusal(text) from None


def simplified(value: Any) -> Any:
    """Return a value with the conversions of Celery's JSON; other values stay unchanged."""
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
