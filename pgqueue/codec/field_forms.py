"""The forms of classes with fields, each of which has a type hint of its own.

These are dataclasses, NamedTuples, classes of attrs, and TypedDicts. Nothing here imports attrs:
its classes have the descriptions of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pgqueue.codec.coded_forms import told
from pgqueue.codec.forms import Writer, expect, full_name, write_at
from pgqueue.codec.hints import hints_of, signature_of
from pgqueue.codec.scalars import Form, Unknown, Unstorable

QUALIFIERS = (".Required", ".NotRequired", ".ReadOnly")

HintOf = Callable[[Any], Writer]
"""Returns the writer for a type hint."""


@cache
def dataclass_form(cls: Any, hint_of: HintOf) -> Form:
    """Return the form of a dataclass: an object of its fields."""
    taken = {field.name: field.name for field in fields(cls) if field.init}
    hints = _hints(cls, [field.name for field in fields(cls)], hint_of)
    return _fields_form(cls, hints, taken, is_rebuilt=False)


def is_attrs_class(cls: type) -> bool:
    """Return whether `cls` is a class of attrs."""
    return hasattr(cls, "__attrs_attrs__")


@cache
def attrs_form(cls: Any, hint_of: HintOf) -> Form:
    """Return the form of a class of attrs: an object of its attributes.

    An instance is built again before it is stored. So converters and validators run, and an
    instance that they refuse is not storable.
    """
    own = cls.__attrs_attrs__
    taken = {each.name: each.alias for each in own if each.init}
    types = {each.name: Any if each.type is None else each.type for each in own}
    hints = _hints(cls, types, hint_of, types)
    return _fields_form(cls, hints, taken, is_rebuilt=True, by_class=True)


def is_named_tuple(cls: type) -> bool:
    """Return whether `cls` is a tuple whose items have names."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


@cache
def named_tuple_form(cls: Any, hint_of: HintOf) -> Form:
    """Return the form of a NamedTuple: an object of its fields."""
    hints = _hints(cls, cls._fields, hint_of)
    taken = {name: name for name in cls._fields}
    return _fields_form(cls, hints, taken, is_rebuilt=False, is_set=False, by_class=True)


def _hints(
    cls: type, names: Collection[str], hint_of: HintOf, types: Mapping[str, Any] | None = None
) -> dict[str, Writer]:
    known = {**(types or {}), **hints_of(cls)}
    return {name: hint_of(known.get(name, Any)) for name in names}


def _fields_form(
    cls: Any,
    hints: Mapping[str, Writer],
    taken: Mapping[str, str],
    *,
    is_rebuilt: bool,
    is_set: bool = True,
    by_class: bool = False,
) -> Form:
    """Return the form of a class with fields.

    Args:
        hints: The writer of each field.
        taken: The parameters of its constructor, by the names of their fields.
        is_rebuilt: Whether an instance is built again, as a check, before it is stored.
        is_set: Whether fields are set after the constructor has run.
        by_class: See `Form`.
    """
    refused = unbuildable(cls, taken.values())

    def write(value: Any) -> dict[str, Any]:
        if refused:
            raise Unstorable(refused)
        if is_rebuilt:
            _rebuild(cls, {own: getattr(value, name) for name, own in taken.items()})
        return {
            name: write_at(".{}", name, getattr(value, name), hint) for name, hint in hints.items()
        }

    def read(plain: Any) -> Any:
        if unknown := expect(dict, plain).keys() - hints:
            raise Unknown(f"{full_name(cls)} has no field {min(unknown)!r}")
        values = {}
        for name, item in plain.items():
            values[name] = hints[name].read(item)
        built = cls(**{taken[name]: values[name] for name in values.keys() & taken.keys()})
        if is_set:
            # Also what __init__ doesn't take, or __post_init__ changes. Frozen ones forbid setattr.
            for name, value in values.items():
                object.__setattr__(built, name, value)
        return built

    return Form(cls, full_name(cls), (dict,), write, read, by_class=by_class)


def _rebuild(cls: Any, values: Mapping[str, Any]) -> None:
    try:
        cls(**values)
    except Exception as error:  # of the project's validators
        raise Unstorable(f"is no valid {full_name(cls)}: {told(error)}") from error


def unbuildable(cls: type, taken: Collection[str]) -> str:
    """Return the reason why no fields build an instance of `cls` again; '': they do."""
    try:
        signature_of(cls).bind(**dict.fromkeys(taken))
    except (TypeError, ValueError) as error:
        return f"is a {full_name(cls)}, which can't be built from its fields: {error}."
    return ""


# --- TypedDicts


@dataclass(frozen=True, eq=False)
class _DictKeys:
    """The keys of a TypedDict, and the writer of each."""

    of: type
    hints: Mapping[str, Writer]
    required: frozenset[str]

    def misfit(self, given: Mapping[str, Any]) -> str:
        """Return the reason why a dict has other keys; '': it has these."""
        if missing := self.required - given.keys():
            return f"lacks the key {min(missing)!r} of {full_name(self.of)}"
        if unknown := given.keys() - self.hints.keys():
            return f"has the key {min(unknown, key=str)!r:.99}, which {full_name(self.of)} lacks"
        return ""


def is_typed_dict(cls: type) -> bool:
    """Return whether `cls` is a TypedDict, of typing or of typing_extensions."""
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")


@cache
def typed_dict_form(classes: tuple[type, ...], hint_of: HintOf) -> Form:
    """Return the form of several TypedDicts: a dict is read by the first with its keys."""
    known = [_keys_of(cls, hint_of) for cls in classes]

    def fitting(given: Mapping[str, Any]) -> _DictKeys | None:
        return next((keys for keys in known if not keys.misfit(given)), None)

    def write(value: Any) -> dict[str, Any]:
        if (keys := fitting(value)) is None:
            raise Unstorable(f"{'; '.join(each.misfit(value) for each in known)}.")
        return {
            name: write_at("[{!r:.99}]", name, item, keys.hints[name])
            for name, item in value.items()
        }

    def read(plain: Any) -> dict[str, Any]:
        if (keys := fitting(expect(dict, plain))) is None:
            kind = ValueError if all(each.required - plain.keys() for each in known) else Unknown
            raise kind(f"it {'; it '.join(each.misfit(plain) for each in known)}")
        return {name: keys.hints[name].read(item) for name, item in plain.items()}

    return Form(dict, "dict", (dict,), write, read)


def _keys_of(cls: Any, hint_of: HintOf) -> _DictKeys:
    names = {*cls.__required_keys__, *cls.__optional_keys__}
    hints = hints_of(cls, include_extras=True)
    unwrapped = {name: _unwrapped(hints.get(name, Any)) for name in names}
    # The class itself does not know it where its annotations are texts.
    required = {
        name
        for name, (_, is_required) in unwrapped.items()
        if is_required or (is_required is None and name in cls.__required_keys__)
    }
    writers = {name: hint_of(hint) for name, (hint, _) in unwrapped.items()}
    return _DictKeys(cls, writers, frozenset(required))


def _unwrapped(hint: Any) -> tuple[Any, bool | None]:
    """Return the type hint of a key, and whether it says that the key is required; None: neither.

    typing_extensions has qualifiers of its own for older versions of Python.
    """
    is_required = None
    while (origin := get_origin(hint)) is Annotated or str(origin).endswith(QUALIFIERS):
        if origin is not Annotated and not str(origin).endswith(".ReadOnly"):
            is_required = str(origin).endswith(".Required")
        hint = get_args(hint)[0]
    return hint, is_required
