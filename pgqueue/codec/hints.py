"""The type hints of functions and classes, as far as they are known at run time."""

from __future__ import annotations

import inspect
import sys
from collections import abc
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

if sys.version_info >= (3, 14):
    from annotationlib import Format, get_annotations

# The concrete types of a hint that asks only for an iterable, or for a mapping.
CONCRETE: dict[Any, tuple[type, ...]] = {
    abc.Sequence: (list, tuple),
    abc.MutableSequence: (list,),
    abc.Iterable: (list, tuple, set, frozenset),
    abc.Collection: (list, tuple, set, frozenset),
    abc.Set: (set, frozenset),
    abc.MutableSet: (set,),
    abc.Mapping: (dict,),
    abc.MutableMapping: (dict,),
}


def hints_of(owner: Callable[..., Any], *, include_extras: bool = False) -> dict[str, Any]:
    """Return the type hints of a function or class, without those that don't resolve.

    Each is resolved by itself: one name that is only imported for type checking
    shall not cost the others their meaning.

    Args:
        include_extras: keep `Annotated`, `Required` and `NotRequired`.
    """
    owner = inspect.unwrap(owner)
    hints: dict[str, Any] = {}
    for scope in reversed(getattr(owner, "__mro__", (owner,))):
        # A class's own names come last, or a field `date: date = None` would hide the type.
        # A function of C has no names, and perhaps no module.
        module = sys.modules.get(getattr(scope, "__module__", None) or "", SimpleNamespace())
        names = {**getattr(scope, "__dict__", {}), **vars(module)}
        for name, annotation in annotations_of(scope).items():
            with suppress(Exception):
                one = SimpleNamespace(__annotations__={name: annotation})
                hints |= get_type_hints(one, globalns=names, include_extras=include_extras)
    return hints


def annotations_of(owner: Any) -> dict[str, Any]:
    """Return the annotations of `owner` itself, resolved or not."""
    if sys.version_info >= (3, 14):
        return get_annotations(owner, format=Format.FORWARDREF)
    return inspect.get_annotations(owner)


def signature_of(func: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of `func`, even where its annotations don't resolve."""
    if sys.version_info >= (3, 14):
        return inspect.signature(func, annotation_format=Format.FORWARDREF)
    return inspect.signature(func)


def classes_in(hint: Any) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """Yield each class that `hint` names, in its order, with the arguments it has there."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        yield from classes_in(hint.__supertype__)
    elif type(hint).__name__ == "TypeAliasType":  # Python 3.12's `type X = …`
        with suppress(NameError):
            yield from classes_in(hint.__value__)
    elif origin is Annotated:
        yield from classes_in(arguments[0])
    elif origin in (Union, UnionType):
        for arm in arguments:
            yield from classes_in(arm)
    elif origin is Literal:
        yield from ((type(value), ()) for value in arguments)
    elif origin in CONCRETE:
        yield from concrete(origin, arguments)
    elif isinstance(origin or hint, type):
        yield origin or hint, arguments


def concrete(origin: Any, arguments: tuple[Any, ...]) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """Yield the classes whose instances an abstract collection stands for."""
    for cls in CONCRETE[origin]:
        yield cls, (*arguments, ...) if cls is tuple else arguments
