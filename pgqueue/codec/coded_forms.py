"""The forms of classes that a function turns into JSON, and another one back.

These are models of pydantic, Structs of msgspec, and a project's own types. Nothing here imports
pydantic or msgspec: whoever has one of their classes has imported them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from typing import Any

from pgqueue.codec.forms import Writer, full_name
from pgqueue.codec.scalars import NUMBERS, Form, Unknown, Unstorable

ANY_KINDS = (bool, *NUMBERS, str, list, dict)
"""All kinds of plain JSON but null, which stays None."""

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]


def coded_form(
    cls: type,
    encode: Encode,
    decode: Decode,
    anything: Writer,
    *,
    kinds: tuple[type, ...] = ANY_KINDS,
    names: Callable[[Any], Collection[str]] | None = None,
) -> Form:
    """Return the form of a class whose values functions encode and decode.

    Args:
        encode: Returns JSON values for an instance.
        decode: Returns the instance for them.
        anything: Writes the JSON values: a dict in them may have the key of a tag.
        kinds: The kinds of plain JSON that are its values.
        names: Returns the attributes of an instance. An instance is decoded again before it is
            stored, and refused if one of its attributes changes. None: no check.
    """
    name = full_name(cls)

    def write(value: Any) -> Any:
        try:
            plain = encode(value)
        except Exception as error:  # of the project's function or class
            raise Unstorable(f"is a {name} that can't be encoded: {told(error)}") from error
        written = anything.write(plain)
        if names is not None:
            _check_decoded(name, value, plain, decode, names(value))
        return written

    def read(plain: Any) -> Any:
        return decode(anything.read(plain))

    return Form(cls, name, kinds, write, read, by_class=True)


def _check_decoded(
    name: str, value: Any, plain: Any, decode: Decode, names: Collection[str]
) -> None:
    try:
        decoded = decode(plain)
        lost = [each for each in names if getattr(value, each) != getattr(decoded, each)]
    except Exception as error:  # of the project's validators
        raise Unstorable(f"is no valid {name}: {told(error)}") from error
    if lost:
        raise Unstorable(
            f"is a {name}, whose {lost[0]!r} would come back as another value: it is lost in JSON."
        )


def told(error: Exception) -> str:
    """Return an error in one line. Of pydantic's errors, it says no value."""
    if faults := _faults(error):
        return "; ".join(_fault(each["loc"], each["msg"]) for each in faults)
    is_explained = isinstance(error, ValueError) and bool(str(error))
    return str(error) if is_explained else f"{type(error).__name__}: {error}"


def _faults(error: Any) -> list[dict[str, Any]]:
    """Return the faults that pydantic has found; empty: it is another error."""
    if not isinstance(error, _class_of("pydantic_core", "ValidationError")):
        return []
    found: list[dict[str, Any]] = error.errors(
        include_url=False, include_context=False, include_input=False
    )
    return found


def _fault(place: tuple[Any, ...], reason: str) -> str:
    where = ".".join(map(str, place))
    return f"{where}: {reason}" if where else reason


# --- pydantic


def is_pydantic_model(cls: type) -> bool:
    """Return whether `cls` is a model of pydantic 2."""
    return issubclass(cls, _class_of("pydantic.main", "BaseModel"))


def pydantic_form(cls: Any, anything: Writer) -> Form:
    """Return the form of a model of pydantic: what its `model_dump` returns for JSON."""

    def encode(value: Any) -> Any:
        # By names, and without computed fields, which no model takes.
        return value.model_dump(mode="json", by_alias=False, round_trip=True, warnings=False)

    def decode(plain: Any) -> Any:
        # As JSON, since a strict model takes no text for a date otherwise.
        text = json.dumps(plain, default=float)
        try:
            return cls.model_validate_json(text, by_name=True)
        except ValueError as error:
            is_newer = any(each["type"] == "extra_forbidden" for each in _faults(error))
            raise (Unknown if is_newer else ValueError)(told(error)) from error

    kinds = ANY_KINDS if cls.__pydantic_root_model__ else (dict,)
    return coded_form(cls, encode, decode, anything, kinds=kinds, names=_pydantic_names)


def _pydantic_names(value: Any) -> Collection[str]:
    return [*type(value).model_fields, "model_extra"]


# --- msgspec


def is_msgspec_struct(cls: type) -> bool:
    """Return whether `cls` is a Struct of msgspec."""
    return issubclass(cls, _class_of("msgspec", "Struct"))


def msgspec_form(cls: Any, anything: Writer) -> Form:
    """Return the form of a Struct of msgspec: what `msgspec.to_builtins` returns."""
    msgspec = sys.modules["msgspec"]

    def encode(value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True)

    def decode(plain: Any) -> Any:
        try:
            return msgspec.convert(plain, cls, str_keys=True)
        except msgspec.ValidationError as error:
            if "unknown field" in str(error):
                raise Unknown(str(error)) from error
            raise

    kinds: tuple[type, ...] = (list,) if cls.__struct_config__.array_like else (dict,)
    return coded_form(
        cls, encode, decode, anything, kinds=kinds, names=lambda value: value.__struct_fields__
    )


def _class_of(module: str, name: str) -> Any:
    """Return a tuple of the class of a package, for isinstance(); empty: it is not imported."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()
