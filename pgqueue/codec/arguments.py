"""A task's arguments and its return value, as JSON for jsonb columns.

A payload is `{"args": [...], "kwargs": {...}}`; one that is written in SQL may leave out either.
How a value looks in it is said in `encoding`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from itertools import count
from operator import contains
from typing import Any, TypeVar

from pgqueue.codec.encoding import ANYTHING, Hint
from pgqueue.codec.envelope import Cipher, is_envelope, token_in
from pgqueue.codec.hints import hints_of, signature_of
from pgqueue.codec.json_text import from_json, to_json
from pgqueue.codec.references import Resolve, resolved
from pgqueue.codec.scalars import Unknown, Unstorable, write_str
from pgqueue.exceptions import (
    DecryptionFailed,
    InvalidArgument,
    InvalidArguments,
    InvalidProgress,
    InvalidResult,
    NewerPayload,
    PayloadTooLarge,
    PGQueueError,
    UnreadablePayload,
)

PAYLOAD_LIMIT = 16 * 1024 * 1024  # bytes
RESULT_LIMIT = 64 * 1024  # bytes, also of progress
# Text this short holds no number of more digits than Python parses.
SHORT = 4300
ARGUMENTS, RESULT, PROGRESS = "arguments", "result", "progress"
"""What of a message is encrypted, as its tokens have it."""
PARTS = frozenset({"args", "kwargs"})
UNPARSABLE = (ValueError, RecursionError)
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)

T = TypeVar("T")


class Codec:
    """Turns the calls of one function, and what it returns, into JSON and back.

    With `skip_first`, the function's first parameter is a context that the worker passes, not an
    argument. Signature and hints are read when first needed, so a hint may name what is defined or
    imported later.

    With a `cipher`, it reads what is encrypted, too. Then errors say nothing of what was read.
    """

    result_hint: type[Hint] = Hint
    """How results are written and read by the function's type hint."""

    def __init__(
        self, func: Callable[..., Any], *, skip_first: bool = False, cipher: Cipher | None = None
    ) -> None:
        self.func = func
        self.skip_first = skip_first
        self._cipher = cipher

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the payload for calling the function with these arguments.

        Raises:
            InvalidArguments: they don't fit the function.
            InvalidArgument: one of them is not storable; the message names it and its place.
            PayloadTooLarge: together they take more than `PAYLOAD_LIMIT`.
        """
        if not kwargs and self._parameters.take_untouched(args) and (short := short_json(args)):
            return f'{{"args":{short},"kwargs":{{}}}}'
        self.check_fit(args, kwargs)
        written, named = self._parameters.each(self._write, args, kwargs)
        pairs = [f"{to_json(name)}:{text}" for name, text in named.items()]
        payload = f'{{"args":[{",".join(written)}],"kwargs":{{{",".join(pairs)}}}}}'
        self.check_size("the arguments", payload, PAYLOAD_LIMIT, PayloadTooLarge)
        return payload

    def decode(
        self, text: str | bytes | memoryview, resolve: Resolve | None = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments that `encode` was given.

        Model instances are fetched from the database, with one query each. So no verb that settles
        or fetches calls this: arguments are decoded when somebody looks at them.

        Args:
            resolve: returns the results that arguments stand for.

        Raises:
            UnreadablePayload: it isn't a payload, or not one for this function.
            NewerPayload: it has more than this code knows.
            DecryptionFailed: it is encrypted, and not as this.
            ObjectDoesNotExist: the row of a model instance is gone.
        """
        try:
            args, kwargs = self._split(text)
            if resolve is not None:
                args, kwargs = resolved([args, kwargs], resolve)
            if not kwargs and self._parameters.take_untouched(args):
                return args, kwargs
            return self._parameters.each(self._read, args, kwargs)
        except UnreadablePayload as error:
            if unsaid := self._unsaid(ARGUMENTS, text, error):
                raise unsaid from None
            raise

    def opened(self, text: str) -> str:
        """Return the JSON of a stored payload, decrypted.

        Raises:
            UnreadablePayload: it isn't JSON.
            DecryptionFailed: it is encrypted, and not as this.
        """
        if not is_envelope(text):
            return text
        token = token_in(parse(self._of("the payload"), text))
        return text if token is None else self._opened(ARGUMENTS, token)

    def closed(self, text: str) -> str:
        """Return the JSON of a payload as it is stored."""
        return text

    def read_row(self, text: str, *, is_typed: bool) -> dict[str, Any]:
        """Return the named arguments for which a row of a table stands.

        Args:
            text: the payload.
            is_typed: whether the source of the row has types. Of a source without them, such as
                CSV, an empty cell is None only where the hint takes None. A parameter for texts
                gets an empty text, and another one keeps its default.

        Raises:
            UnreadablePayload: it isn't a payload, or a value is none of its parameter's hint.
            ObjectDoesNotExist: the row of a model instance is gone.
        """
        _, cells = self._split(text)
        if not is_typed:
            cells = dict(self._filled(cells))
        return self._parameters.each(self._read_cell, (), cells)[1]

    def registered(self, text: str | bytes | memoryview) -> list[tuple[str, type, Any]]:
        """Return the arguments that stand for values of registered classes, such as models.

        Each has its name, its class and its key. Nothing is fetched. Of what is encrypted there
        are none.

        Raises:
            UnreadablePayload: it isn't a payload, or not one for this function.
        """
        if is_envelope(text):
            return []
        args, kwargs = self._split(text)
        found: list[tuple[str, type, Any]] = []

        def step(name: str, hint: Hint, plain: Any) -> None:
            if known := hint.registered(plain):
                found.append((name, *known))

        self._parameters.each(step, args, kwargs)
        return found

    def encode_result(self, value: Any) -> str:
        """Return as JSON what the function returned.

        Raises:
            InvalidResult: it is not storable, or takes more than `RESULT_LIMIT`.
        """
        return self._dump("the result", self._parameters.returned, value, InvalidResult)

    def decode_result(self, text: str | bytes | memoryview) -> Any:
        """Return the value that the function returned.

        Raises:
            UnreadablePayload: it isn't JSON, or no result of this function.
            DecryptionFailed: it is encrypted, and not as this.
            ObjectDoesNotExist: the row of a model instance is gone.
        """
        return self._load(RESULT, self._parameters.returned, text)

    def plain_result(self, text: str | bytes | memoryview) -> Any:
        """Return the stored result, parsed and decrypted, as plain JSON.

        Raises:
            UnreadablePayload: it isn't JSON.
            DecryptionFailed: it is encrypted, and not as this.
        """
        return self._plain(RESULT, text)

    def encode_progress(self, data: Any) -> str:
        """Return as JSON what a run of the function noted of its progress.

        Raises:
            InvalidProgress: it is not storable, or takes more than `RESULT_LIMIT`.
        """
        return self._dump("the progress", ANYTHING, data, InvalidProgress)

    def decode_progress(self, text: str | bytes | memoryview) -> Any:
        """Return the progress that a run of the function has noted.

        Raises:
            UnreadablePayload: it isn't JSON, or has a tag that is not known here.
            DecryptionFailed: it is encrypted, and not as this.
        """
        return self._load(PROGRESS, ANYTHING, text)

    def check_known(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], payload: bytes = b""
    ) -> None:
        """Check that the function has a parameter for each argument of a message.

        Args:
            payload: where the arguments were read from. If it is encrypted, the error does not
                quote it.

        Raises:
            NewerPayload: it has none for one of them.
        """
        if extra := self._parameters.beyond(args, kwargs):
            said = "it has no parameter for an argument" if is_envelope(payload) else extra
            raise NewerPayload(f"{self._of('a call')} doesn't fit here: {said}.")

    def check_fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check that the function can be called so, whatever the values are.

        Raises:
            InvalidArguments: it can't.
        """
        try:
            self._parameters.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{self._of('a call')} doesn't fit: {error}.") from error

    @property
    def returned(self) -> Hint:
        """How what the function returns is written."""
        return self._parameters.returned

    @cached_property
    def _parameters(self) -> Parameters:
        return Parameters(self.func, skip_first=self.skip_first, result_hint=self.result_hint)

    def _split(self, text: str | bytes | memoryview) -> tuple[list[Any], dict[str, Any]]:
        try:
            payload = from_json(text if isinstance(text, str) else str(text, "utf-8"))
        except UNPARSABLE as error:
            raise _unparsable(self._of("the payload"), error) from error
        if type(payload) is dict and payload.keys() <= PARTS:
            args, kwargs = payload.get("args", []), payload.get("kwargs", {})
            if type(args) is list and type(kwargs) is dict:
                return args, kwargs
        if (token := token_in(payload)) is not None:
            return self._split(self._opened(ARGUMENTS, token))
        raise UnreadablePayload(
            f'{self._of("the payload")} should be {{"args": […], "kwargs": {{…}}}}, '
            f"but is {reprlib.repr(payload)}."
        )

    def _load(self, what: str, hint: Hint, text: str | bytes | memoryview) -> Any:
        try:
            return read(self._of(f"the {what}"), hint, self._plain(what, text))
        except UnreadablePayload as error:
            if unsaid := self._unsaid(what, text, error):
                raise unsaid from None
            raise

    def _plain(self, what: str, text: str | bytes | memoryview) -> Any:
        named = self._of(f"the {what}")
        plain = parse(named, text)
        if (token := token_in(plain)) is not None:
            plain = parse(named, self._opened(what, token))
        return plain

    def _opened(self, what: str, token: str) -> str:
        if self._cipher is None:
            raise DecryptionFailed(f"Nothing decrypts {self._of(f'the {what}')} here.")
        return self._cipher.unseal(self._name, what, token)

    def _unsaid(
        self, what: str, text: str | bytes | memoryview, error: UnreadablePayload
    ) -> UnreadablePayload | None:
        """Return an error in the place of one that shows what was decrypted, if it does."""
        if not is_envelope(text) or isinstance(error, DecryptionFailed):
            return None
        kind = NewerPayload if isinstance(error, NewerPayload) else UnreadablePayload
        return kind(
            f"What was decrypted as {self._of(f'the {what}')} was not written for this function, "
            "or it has changed since."
        )

    def _write(self, name: str, hint: Hint, value: Any) -> str:
        try:
            write_str(name)  # **kwargs takes any
            return hint.dump(value)
        except Unstorable as error:
            raise InvalidArgument(error.about(self._argument(name))) from error

    def _read(self, name: str, hint: Hint, plain: Any) -> Any:
        return read(self._argument(name), hint, plain)

    def _filled(self, cells: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield cells, with what an empty one stands for; none where a parameter has a default."""
        for name, plain in cells.items():
            hint = self._parameters.hint(name)
            if plain is not None or hint.takes_null:
                yield name, plain
            elif hint.takes_text:
                yield name, ""
            elif not self._parameters.has_default(name):
                raise UnreadablePayload(f"{self._argument(name)} has no value.")

    def _read_cell(self, name: str, hint: Hint, plain: Any) -> Any:
        if type(plain) is str:
            try:
                plain = hint.plain_of(plain)
            except ValueError as error:
                raise UnreadablePayload(
                    f"{self._argument(name)} can't be read from {reprlib.repr(plain)}: {error}."
                ) from error
        return self._read(name, hint, plain)

    def _dump(self, what: str, hint: Hint, value: Any, refusal: type[PGQueueError]) -> str:
        try:
            text = hint.dump(value)
        except Unstorable as error:
            raise refusal(error.about(self._of(what))) from error
        self.check_size(what, text, RESULT_LIMIT, refusal)
        return text

    def check_size(self, what: str, text: str, limit: int, refusal: type[PGQueueError]) -> None:
        """Check that a text of JSON takes no more than `limit` bytes.

        Raises:
            PGQueueError: it does: a `refusal`.
        """
        if size(text) > limit:
            check_size(self._of(what), size(text), limit, refusal)

    def _argument(self, name: str) -> str:
        return self._of(f"argument {name!r}")

    def _of(self, what: str) -> str:
        return f"{what} of {self._name}"

    @property
    def _name(self) -> str:
        return f"{self.func.__module__}.{self.func.__qualname__}"


class Parameters:
    """The signature of a function, with a hint for each parameter and for the result."""

    def __init__(
        self, func: Callable[..., Any], *, skip_first: bool, result_hint: type[Hint] = Hint
    ) -> None:
        types = hints_of(func)
        signature = signature_of(func)
        parameters = list(signature.parameters.values())[skip_first:]
        hints = {each.name: Hint(types.get(each.name, Any)) for each in parameters}

        def of_kind(*kinds: Any) -> dict[str, Hint]:
            return {each.name: hints[each.name] for each in parameters if each.kind in kinds}

        self.signature = signature.replace(parameters=parameters)
        self.returned = result_hint(types.get("return", Any))
        self._positional = of_kind(Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        self._named = of_kind(Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        self._rest = of_kind(Parameter.VAR_POSITIONAL)
        others = of_kind(Parameter.VAR_KEYWORD)
        self._takes_any = bool(others)
        self._others = next(iter(others.values()), Hint())

    def each(
        self,
        step: Callable[[str, Hint, Any], T],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> tuple[list[T], dict[str, T]]:
        """Return the arguments, each replaced by `step(name, hint, value)`."""
        return (
            [
                step(name, hint, value)
                for value, (name, hint) in zip(args, self._each_positional(), strict=False)
            ],
            {name: step(name, self.hint(name), value) for name, value in kwargs.items()},
        )

    def beyond(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Say which arguments the function has no parameters for; "": it has them for all."""
        if len(args) > len(self._positional) and not self._rest:
            return f"it takes {len(self._positional)} positional arguments, and got {len(args)}"
        if not kwargs or self._takes_any or (not (unknown := kwargs.keys() - self._named)):
            return ""
        return f"it has no parameter {min(unknown)!r}"

    def hint(self, name: str) -> Hint:
        """Return the hint of a named argument."""
        return self._named.get(name, self._others)

    def has_default(self, name: str) -> bool:
        """Tell whether a named argument may be left out."""
        parameter = self.signature.parameters.get(name)
        return parameter is not None and parameter.default is not Parameter.empty

    def take_untouched(self, args: Sequence[Any]) -> bool:
        """Tell whether the function takes these positional arguments, and all are plain JSON."""
        return len(args) in self._counts and all(map(contains, self._untouched, map(type, args)))

    @cached_property
    def _counts(self) -> range:
        """How many positional arguments make a call without any named ones."""
        needed = {
            name
            for name, parameter in self.signature.parameters.items()
            if parameter.default is Parameter.empty and name in self._positional | self._named
        }
        if needed - self._positional.keys():
            return range(0)
        return range(len(needed), len(self._positional) + 1)

    @cached_property
    def _untouched(self) -> list[frozenset[type]]:
        return [hint.untouched for hint in self._positional.values()]

    def _each_positional(self) -> Iterator[tuple[str, Hint]]:
        yield from self._positional.items()
        name, hint = next(iter(self._rest.items()), ("args", Hint()))
        for index in count():
            yield f"{name}[{index}]", hint


def short_json(args: Sequence[Any] | Mapping[str, Any]) -> str | None:
    """Return plain scalars as JSON, or None where they need a closer look."""
    try:
        text = to_json(args)
    except ValueError:  # more digits than Python converts
        return None
    harmless = len(text) < SHORT and text.isascii() and "\\u0000" not in text
    return text if harmless else None


def read(what: str, hint: Hint, plain: Any) -> Any:
    """Return the value of `plain` under `hint`; an error names `what`, at least in a note."""
    try:
        return hint.read(plain)
    except UNREADABLE as error:
        kind = NewerPayload if isinstance(error, Unknown) else UnreadablePayload
        why = f"{type(error).__name__}: {error}."
        raise kind(f"{what} can't be read from {reprlib.repr(plain)}: {why}") from error
    except Exception as error:  # of a model's row, or a class of the project
        error.add_note(f"It was raised while {what} was read.")
        raise


def parse(what: str, text: str | bytes | memoryview) -> Any:
    try:
        return from_json(text if isinstance(text, str) else str(text, "utf-8"))
    except UNPARSABLE as error:
        raise _unparsable(what, error) from error


def _unparsable(what: str, error: Exception) -> UnreadablePayload:
    return UnreadablePayload(f"{what} can't be parsed: {error}.")


def dump_small(what: str, hint: Hint, value: Any, refusal: type[PGQueueError]) -> str:
    """Return a value as JSON that takes no more than `RESULT_LIMIT`: it is stored with a message.

    Raises:
        PGQueueError: it is not storable, or takes more than `RESULT_LIMIT`: a `refusal`.
    """
    try:
        text = hint.dump(value)
    except Unstorable as error:
        raise refusal(error.about(what)) from error
    check_size(what, size(text), RESULT_LIMIT, refusal)
    return text


def check_size(what: str, bytes_taken: int, limit: int, refusal: type[PGQueueError]) -> None:
    """Check that a value takes no more than `limit` bytes.

    Raises:
        PGQueueError: it does: a `refusal`.
    """
    if bytes_taken > limit:
        taken = f"{bytes_taken:,} bytes, more than {limit:,}"
        raise refusal(f"{what} would take {taken}: store the data elsewhere, and say where it is.")


def size(text: str) -> int:
    """Return how many bytes `text` takes."""
    return len(text) if text.isascii() else len(text.encode())
