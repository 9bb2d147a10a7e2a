"""The form that sends a signal. The class of the payload decides the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from secrets import token_hex
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from django import forms
from django.utils.translation import gettext as _

from pgqueue.admin.fields import FewLines, JSONTextField
from pgqueue.codec.encoding import ANYTHING, Hint
from pgqueue.codec.scalars import as_number
from pgqueue.tasks.signalling import NAME_BYTES
from pgqueue.values.names import as_text

PREFIX = "field_"
VALUE = "value"
"""The field of a payload without fields."""


class TakenField(forms.CharField):
    """The payload that a form was made for: a form with errors is shown again for its own."""

    widget = forms.HiddenInput

    def bound_data(self, data: Any, initial: Any) -> Any:
        return initial


class SignalForm(forms.Form):
    """Sends a signal.

    Args:
        name: the name of the signal; "": the user gives it.
        kind: the class of its payload; None: it is JSON.
    """

    def __init__(self, *args: Any, name: str, kind: Any, **kwargs: Any) -> None:
        kwargs.setdefault("initial", {"dedupe_id": token_hex(16)})
        super().__init__(*args, **kwargs)
        self._kind = kind
        self.fields["name"] = forms.CharField(
            label=_("Signal"), max_length=NAME_BYTES, initial=name
        )
        # Sent twice, it counts once.
        self.fields["dedupe_id"] = forms.CharField(widget=forms.HiddenInput, max_length=64)
        # The wait may change between the page and its answer.
        self.fields["takes"] = TakenField(required=False, initial=_taken(kind))
        for field, annotation, default in _fields_of(kind):
            self.fields[PREFIX + field] = _form_field(field, annotation, default)

    def clean_name(self) -> str:
        """Return the name of the signal, if it may be stored."""
        try:
            return as_text(self.cleaned_data["name"], NAME_BYTES)
        except (TypeError, ValueError) as error:
            raise forms.ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        """Make the payload of its fields."""
        given: dict[str, Any] = super().clean() or {}
        if given.get("takes") and given["takes"] != _taken(self._kind):
            raise forms.ValidationError(_("The signal takes other fields: give these."))
        values: dict[str, Any] = {}
        for field, annotation, default in _fields_of(self._kind):
            if PREFIX + field not in given:
                continue
            try:
                value = _value(given[PREFIX + field], annotation)
            except (TypeError, ValueError, LookupError, ArithmeticError) as error:
                self.add_error(PREFIX + field, str(error) or _("It does not fit."))
                continue
            if value is not MISSING:
                values[field] = value
            elif default is MISSING:
                self.add_error(PREFIX + field, _("This field is required."))
        if self.errors:
            return given
        try:
            is_class = is_dataclass(self._kind) and isinstance(self._kind, type)
            given["payload"] = self._kind(**values) if is_class else values.get(VALUE)
        except Exception as error:  # of the project's class
            self.add_error(None, str(error))
        return given


def _taken(kind: Any) -> str:
    """Return the class of a payload and its fields as a text, to compare two forms."""
    name = f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else "json"
    return " ".join([name, *(field for field, _annotation, _default in _fields_of(kind))])


def _fields_of(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return the names of a payload's fields, their type hints, and their defaults or MISSING."""
    if not isinstance(kind, type):
        return [(VALUE, Any, None)]
    if not is_dataclass(kind):
        return [(VALUE, kind, MISSING)]
    hints = get_type_hints(kind)
    return [(each.name, hints[each.name], _default(each)) for each in fields(kind) if each.init]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _form_field(name: str, annotation: Any, default: Any) -> forms.Field:
    label = _("Payload") if name == VALUE else name.replace("_", " ").capitalize()
    options: dict[str, Any] = {"label": label, "required": False}
    if default not in (MISSING, None) and not isinstance(default, Enum):
        options["initial"] = default
    if annotation is Any:
        return JSONTextField(**options, help_text=_("JSON; empty: nothing."), parse_float=as_number)
    if annotation is bool:
        return forms.BooleanField(**options)
    if choices := _choices(annotation):
        options["initial"] = default.name if isinstance(default, Enum) else options.get("initial")
        empty = [("", "-")] if default is MISSING or _is_optional(annotation) else []
        return forms.ChoiceField(**options, choices=[*empty, *((each, each) for each in choices)])
    if isinstance(default, list | dict | tuple | set):
        options["initial"] = ANYTHING.dump(default)
    widget = FewLines if annotation is str else None
    return forms.CharField(
        **options, strip=False, widget=widget, help_text=_type_in_words(annotation)
    )


def _value(given: Any, annotation: Any) -> Any:
    """Return the value of a field; MISSING: it was left empty."""
    if annotation is Any or isinstance(given, bool):
        return given
    if given == "":
        if _is_optional(annotation):
            return None
        return "" if annotation is str else MISSING
    if choices := _choices(annotation):
        return choices[given]
    hint = Hint(annotation)
    return hint.read(hint.plain_of(given))


def _choices(annotation: Any) -> Mapping[str, Any]:
    """Return the values of an enum or a literal, by the texts of a select."""
    own = _without_none(annotation)
    if get_origin(own) is Literal:
        return {str(each): each for each in get_args(own)}
    if isinstance(own, type) and issubclass(own, Enum):
        return {each.name: each for each in own}
    return {}


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        left = [each for each in get_args(annotation) if each is not NoneType]
        return left[0] if len(left) == 1 else annotation
    return annotation


def _is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def _type_in_words(annotation: Any) -> str:
    own = _without_none(annotation)
    return own.__name__ if isinstance(own, type) and not get_args(own) else str(own)
