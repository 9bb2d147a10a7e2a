"""Values as JSON, and back as what they were.

The rule: **plain JSON is read by the hint, and a tag wins over the hint.**

Each type has a form: the JSON of its values, and the kinds of plain JSON that it reads. A hint
puts the forms of its types in front of the forms that are always known. Among the hint's types,
JSON's own (None, bool, int, float, str, list, dict) come first: a plain string for `UUID | str`
is a str. The form of a value's type writes the value. Where another form would read this kind of
plain JSON, the value is tagged with its type's name:

    hint datetime    datetime(2030, 1, 1)   →  "2030-01-01T00:00:00"
    hint datetime    "2030-01-01"           →  {"@": "str", "value": "2030-01-01"}
    no hint          datetime(2030, 1, 1)   →  {"@": "datetime", "value": "2030-01-01T00:00:00"}
    no hint          {"@": 1}               →  {"@": "dict", "value": {"@": 1}}

So a value that doesn't match its hint comes back as given, and plain SQL can send an ISO
string for a datetime, a number or a string for a Decimal, seconds for a timedelta, the key
for a model instance.

Some things are lost: the order of a dict's keys, since jsonb sorts them; the name of a time zone,
but not its offset; `fold`. An instance of a subclass of str, int or datetime, such as an unhinted
TextChoices, returns as an instance of the base class. Classes with fields, models and other enums
need the hint, because no tag ever makes us import anything. A type that is registered as
`own_types.register` says needs none: it is imported already.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import is_dataclass, replace
from decimal import Decimal
from enum import Enum
from functools import cached_property
from types import NoneType
from typing import Any, NamedTuple

from pgqueue.codec.coded_forms import (
    is_msgspec_struct,
    is_pydantic_model,
    msgspec_form,
    pydantic_form,
)
from pgqueue.codec.field_forms import (
    attrs_form,
    dataclass_form,
    is_attrs_class,
    is_named_tuple,
    is_typed_dict,
    named_tuple_form,
    typed_dict_form,
)
from pgqueue.codec.forms import dict_form, enum_form, full_name, items_form
from pgqueue.codec.hints import classes_in
from pgqueue.codec.json_text import TAG, from_json, to_json
from pgqueue.codec.lazy_texts import evaluated
from pgqueue.codec.scalars import (
    FRACTION,
    SCALARS,
    Form,
    Unknown,
    Unstorable,
    as_number,
)

JSON_TYPES = (NoneType, bool, int, float, str, list, dict)
CONTAINERS = (list, dict, tuple, set, frozenset)
# int() and Decimal() also take "1_000", digits of other scripts, and "nan".
INTEGER = re.compile(r"[+-]?[0-9]{1,4300}")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
"""Texts for bool, as PostgreSQL reads them."""


_registered: list[Callable[[type], Form | None]] = []

own_forms: dict[type, Form] = {}
"""The forms of the types that a project has registered."""
_own_by_tag: dict[str, Form] = {}


def add_own_form(form: Form) -> None:
    """Add the form of a type that a project has registered."""
    own_forms[form.of] = form
    _own_by_tag[form.tag] = form


def register_forms(find: Callable[[type], Form | None]) -> None:
    """Register classes of a framework that the codec must not import.

    A value of such a class needs the class as its type hint. Call this before the first value is
    encoded: forms are looked up once for each hint.

    Args:
        find: returns the form of a class, None if it has none.
    """
    if find not in _registered:
        _registered.append(find)


RESULT = "result"
"""The tag of a reference."""

noticed: ContextVar[list[Reference] | None] = ContextVar("noticed", default=None)
"""Where references are noted while arguments are encoded; None: none may be among them."""


class Reference:
    """Stands for a result among the arguments of a message of the same flow."""

    __slots__ = ()

    @property
    def message_id(self) -> int:
        """The id that is reserved for the message."""
        raise NotImplementedError

    @property
    def returned(self) -> Hint:
        """How what its task returns is written."""
        raise NotImplementedError


class ResultOf(NamedTuple):
    """The value of an argument that stands for a result, until its message runs."""

    message_id: int


class Returned:
    """The result of a parent, or the error in its place.

    Args:
        task: the name of the parent's task.
        plain: JSON, parsed.
        hint: the hint by which the parent's task wrote it.
        error: it is passed in place of a missing result.
        is_encrypted: whether it is stored encrypted.
        size: characters of the JSON.
    """

    __slots__ = ("error", "hint", "is_encrypted", "plain", "size", "task")

    def __init__(
        self,
        task: str,
        plain: Any = None,
        *,
        hint: Hint | None = None,
        error: Exception | None = None,
        is_encrypted: bool = False,
        size: int = 0,
    ) -> None:
        self.task = task
        self.size = size
        self.plain = plain
        self.hint = hint
        self.error = error
        self.is_encrypted = is_encrypted


class Hint:
    """Writes and reads what one type hint speaks of. Looks into the hint when first used."""

    def __init__(self, annotation: Any = Any) -> None:
        self._annotation = annotation

    def write(self, value: Any) -> Any:
        """Return `value` as JSON.

        Raises:
            Unstorable: it, or something in it, could not come back as what it is.
        """
        form = self._by_type.get(type(value))
        if form is None:
            value = evaluated(value)
            form = self._by_type.get(type(value)) or self._adopting(value)
        try:
            plain = form.write(value)
        except TypeError as error:
            if type(value) is value.__class__:
                raise
            kind = full_name(value.__class__)
            raise Unstorable(f"is a lazy {kind}: pass what it stands for.") from error
        if self._by_kind[type(plain)] is form and not is_tagged(plain):
            return plain
        return {TAG: form.tag, "value": plain}

    def dump(self, value: Any) -> str:
        """Return `value` as JSON text.

        Raises:
            Unstorable: as `write` does.
        """
        try:
            return to_json(self.write(value))
        except RecursionError:
            raise Unstorable("is nested too deeply, or contains itself.") from None
        except ValueError as error:  # fewer digits allowed in an int than usual
            raise Unstorable(f"can't be written: {error}.") from error

    def read(self, plain: Any) -> Any:
        """Return the value that was written, or that plain JSON means here.

        Raises:
            ValueError, TypeError, LookupError, ArithmeticError: it means nothing here.
        """
        if not is_tagged(plain):
            return self._by_kind[type(plain)].read(plain)
        tag = plain[TAG]
        form = self._by_tag.get(tag) or _own_by_tag.get(tag)
        if form is None or plain.keys() != {TAG, "value"}:
            if tag == RESULT:
                return self._read_result(plain["value"])
            raise Unknown(f"{plain!r:.200} has no tag that is known here")
        return form.read(plain["value"])

    def registered(self, plain: Any) -> tuple[type, Any] | None:
        """Return which registered class's value plain JSON is, and its key; None: of none.

        Nothing is fetched.
        """
        form, value = self._by_kind.get(type(plain)), plain
        if is_tagged(plain):
            form, value = self._by_tag.get(plain[TAG]), plain.get("value")
        if form is None or form.of in KNOWN or form.of in own_forms:
            return None
        if registered_form(form.of) is None:
            return None
        return form.of, ANYTHING.read(value)

    def plain_of(self, text: str) -> Any:
        """Return the plain JSON for which a text stands here, such as a cell of a CSV file.

        The text stays a text if the hint names a class that is written as one, or nothing.

        Raises:
            ValueError: the text is no value of the classes that the hint names.
        """
        kinds = self._kinds
        if not kinds or str in kinds:
            return text
        short = text.strip()
        if int in kinds and INTEGER.fullmatch(short):
            return int(short)
        if {*FRACTION} & kinds and NUMBER.fullmatch(short):
            return Decimal(short)
        if bool in kinds and short.lower() in FLAGS:
            return FLAGS[short.lower()]
        if {list, dict} & kinds:
            with suppress(ValueError):
                plain = from_json(short)
                if type(plain) in kinds:
                    return plain
        named = " or ".join(dict.fromkeys(full_name(form.of) for form in self._named))
        raise ValueError(f"it is no {named}")

    @property
    def takes_null(self) -> bool:
        """Whether None is a value here."""
        return not self._kinds or NoneType in self._kinds

    @property
    def takes_text(self) -> bool:
        """Whether a text is a value of a class that the hint names, or the hint names none."""
        return not self._named or any(form.of is str for form in self._named)

    @cached_property
    def _kinds(self) -> frozenset[type]:
        """The kinds of plain JSON that are values of the classes which the hint names."""
        return frozenset(kind for form in self._named for kind in form.kinds)

    @cached_property
    def untouched(self) -> frozenset[type]:
        """The types whose values are their own JSON here."""
        scalars = (NoneType, bool, int, str)
        return frozenset(kind for kind in scalars if self._by_kind[kind] is KNOWN[kind])

    def takes(self, returned: Hint) -> bool:
        """Return whether this hint may read the values that `returned` writes, by their types."""
        theirs = returned._named
        if not self._named or not theirs:
            return True
        kinds = {kind for form in self._named for kind in form.kinds}
        return any(kind in kinds for form in theirs for kind in form.kinds[:1])

    def _write_reference(self, value: Reference) -> int:
        notes = noticed.get()
        if notes is None:
            raise Unstorable("stands for a result: only a message of the same flow can take it.")
        if not self.takes(value.returned):
            raise Unstorable(f"is what {value!r} returns, which this parameter doesn't take.")
        notes.append(value)
        return value.message_id

    def _read_result(self, returned: Any) -> Any:
        if type(returned) is not Returned:
            return ResultOf(returned)  # nobody has asked yet what came of it
        if returned.error is not None:
            return returned.error
        # Where nothing is said here, the parent's hint knows what it is.
        hint = self if self._named or returned.hint is None else returned.hint
        return hint.read(returned.plain)

    def _adopting(self, value: Any) -> Form:
        if isinstance(value, Reference):
            return self._reference_form
        # `__class__`, since for a lazy object like request.user it is what that stands for.
        cls = value.__class__
        if own := own_forms.get(cls):
            return own
        form = next((self._by_type[base] for base in cls.__mro__ if base in self._by_type), None)
        if form and (form.of is cls or (form.adopts and comes_back(value, form))):
            return form
        raise Unstorable(refusal(cls))

    @cached_property
    def _reference_form(self) -> Form:
        return Form(Reference, RESULT, (), self._write_reference, int)

    @cached_property
    def _named(self) -> tuple[Form, ...]:
        classes = list(classes_in(self._annotation))
        named = [form for each in classes if (form := form_of(*each))]
        typed_dicts = tuple(cls for cls, _ in classes if is_typed_dict(cls))
        # Last: where the hint names any dict, too, that form wins, and refuses none.
        if typed_dicts:
            named.append(typed_dict_form(typed_dicts, Hint))
        named.sort(key=lambda form: form.of not in JSON_TYPES)
        return tuple(named)

    @cached_property
    def _forms(self) -> tuple[Form, ...]:
        return (*self._named, *KNOWN.values())

    # The first form wins, so each is built from the last to the first.

    @cached_property
    def _by_type(self) -> dict[type, Form]:
        return {form.of: form for form in reversed(self._forms)}

    @cached_property
    def _by_tag(self) -> dict[str, Form]:
        return {form.tag: form for form in reversed(self._forms)}

    @cached_property
    def _by_kind(self) -> dict[type, Form]:
        forms = {kind: form for form in reversed(self._forms) for kind in form.kinds}
        if KNOWN[float] not in self._named and forms[Decimal] is KNOWN[float]:
            forms[Decimal] = UNHINTED_NUMBER
        return forms


class ExactHint(Hint):
    """A hint for values that later code reads, whose hint may be another one by then.

    A value of another class than the hint names is always tagged. So plain JSON that means no such
    class was written by another hint, and is refused. Instances of classes that plain JSON does not
    tell apart (`Form.by_class`) are always tagged. A hint that names classes must name registered
    types, too. Parts of a value are not checked.
    """

    def write(self, value: Any) -> Any:
        """Return `value` as JSON.

        Raises:
            Unstorable: as `Hint.write` does.
        """
        plain = super().write(value)
        if is_tagged(plain) or self._means(plain):
            return plain
        return {TAG: self._by_kind[type(plain)].tag, "value": plain}

    def read(self, plain: Any) -> Any:
        """Return the value that was written, or that plain JSON means here.

        Raises:
            ValueError, TypeError, LookupError, ArithmeticError: it means nothing here, or is plain
                JSON of a class that the hint does not name.
        """
        own = _own_by_tag.get(plain[TAG]) if is_tagged(plain) else None
        if self._misses(own) or not (is_tagged(plain) or self._means(plain)):
            named = " or ".join(dict.fromkeys(full_name(form.of) for form in self._named))
            raise ValueError(f"it is no {named}")
        return super().read(plain)

    def _adopting(self, value: Any) -> Form:
        form = super()._adopting(value)
        if self._misses(own_forms.get(form.of)):
            raise Unstorable(f"is a {full_name(form.of)}, which the type hint does not name.")
        return form

    def _misses(self, own: Form | None) -> bool:
        return own is not None and bool(self._named) and own not in self._named

    def _means(self, plain: Any) -> bool:
        form = self._by_kind[type(plain)]
        return not self._named or (form in self._named and not form.by_class)


class PayloadHint(ExactHint):
    """An exact hint for the payloads of signals: SQL sends plain JSON for any class."""

    def _means(self, plain: Any) -> bool:
        return not self._named or self._by_kind[type(plain)] in self._named


def is_tagged(plain: Any) -> bool:
    return type(plain) is dict and TAG in plain


def comes_back(value: Any, form: Form) -> bool:
    """Return whether `form` reads all parts of `value` that it writes: not its nanoseconds."""
    plain = form.write(value)
    return bool(form.write(form.read(plain)) == plain)


def refusal(cls: type) -> str:
    """Say why no value of `cls` can be written, and what to do."""
    name = full_name(cls)
    if needs_hint(cls):
        return f"is a {name}, which needs that class as its type hint, imported at run time."
    for base in cls.__mro__:
        if base in own_forms:
            return f"is a {name}, which is no {full_name(base)} itself: register it, too."
        if base in KNOWN:
            return f"is a {name}, which would come back as a {base.__name__}: pass one instead."
    return f"is a {name}, which JSON can't say: pass text, numbers, or a list or dict of them."


# --- Which form a class has


def form_of(cls: type, arguments: tuple[Any, ...]) -> Form | None:
    """Return the form of `cls[*arguments]`; None: the codec cannot write its values."""
    if arguments and cls in CONTAINERS:
        return container_form(cls, arguments)
    if cls in KNOWN:
        return KNOWN[cls]
    return own_forms.get(cls) or registered_form(cls) or class_form(cls)


def class_form(cls: type) -> Form | None:
    """Return the form of an enum or of a class with fields; None: it is neither."""
    if issubclass(cls, Enum):
        return enum_form(cls, ANYTHING)
    if is_pydantic_model(cls):
        return pydantic_form(cls, ANYTHING)
    if is_msgspec_struct(cls):
        return msgspec_form(cls, ANYTHING)
    find = next((find for is_one, find in FIELD_FORMS if is_one(cls)), None)
    return None if find is None else find(cls, Hint)


def needs_hint(cls: type) -> bool:
    """Return whether only a type hint makes the codec read instances of `cls` again."""
    if cls in KNOWN or cls in own_forms:
        return False
    return registered_form(cls) is not None or class_form(cls) is not None


def container_form(cls: type, arguments: tuple[Any, ...]) -> Form:
    if cls is dict:
        return dict_form(Hint(arguments[-1]))
    if cls is tuple and arguments[-1] is not ...:
        return items_form(cls, *map(Hint, arguments), rest=ANYTHING)
    return items_form(cls, rest=Hint(arguments[0]))


def registered_form(cls: type) -> Form | None:
    """Return the form that a registered function has for `cls`."""
    return next((form for find in _registered if (form := find(cls))), None)


FIELD_FORMS: tuple[tuple[Callable[[type], bool], Callable[[Any, Any], Form]], ...] = (
    (is_dataclass, dataclass_form),
    (is_named_tuple, named_tuple_form),
    (is_attrs_class, attrs_form),
)
ANYTHING = Hint()
KNOWN = {
    form.of: form
    for form in (
        *SCALARS,
        items_form(list, rest=ANYTHING),
        dict_form(ANYTHING),
        items_form(tuple, rest=ANYTHING),
        items_form(set, rest=ANYTHING),
        items_form(frozenset, rest=ANYTHING),
    )
}
UNHINTED_NUMBER = replace(KNOWN[float], read=as_number)
"""Reads a fraction where no hint says what it is."""
