from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import connections
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext_lazy as _

from pgqueue.codec.json_text import refuse
from pgqueue.conf import settings
from pgqueue.events import groups
from pgqueue.exceptions import InvalidFilter, InvalidGroup
from pgqueue.options.filters import as_pattern
from pgqueue.options.starts import parse_start
from pgqueue.values.json_checks import as_json

STARTS = _("now, beginning, a position, or a time such as 2026-11-24T08:30:00Z.")


class PositionField(forms.CharField):
    """A place in the log, as its current position."""

    def clean(self, value: Any) -> int | None:
        """Return the position of the place.

        Raises:
            ValidationError: the value is no place in the log.
        """
        text = super().clean(value)
        if not text:
            return None
        try:
            return groups.resolve(connections[settings().database], parse_start(text))
        except (InvalidGroup, ValueError) as error:
            raise ValidationError(str(error)) from error


class FewLines(forms.Textarea):
    """A text area for JSON and for other texts of some lines."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__({"rows": 4, "class": "vLargeTextField", **(attrs or {})})


class JSONTextField(forms.JSONField):
    """Django's field, but with errors for JSON that Python or PostgreSQL refuses."""

    widget = FewLines

    def __init__(
        self, *args: Any, parse_float: Callable[[str], Any] = float, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._parse_float = parse_float

    def to_python(self, value: Any) -> Any:
        """Return the value of a text.

        Raises:
            ValidationError: the text is no JSON, or PostgreSQL would refuse it.
        """
        if isinstance(value, str) and value not in self.empty_values:
            try:
                _read(value)
                if self._parse_float is not float:
                    return json.loads(value, parse_float=self._parse_float)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise ValidationError(f"{self.error_messages['invalid']} {error}") from error
        return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:
        """Return the text of a value: Python fails to write a too deeply nested document."""
        if value is None:
            return ""  # as an empty field is read
        try:
            return super().prepare_value(value)
        except RecursionError:
            return InvalidJSONInput("…")

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return the value to show again after an error."""
        try:
            if isinstance(data, str):
                _read(data)
        except (TypeError, ValueError):
            return InvalidJSONInput(data)
        if data is not None and self._parse_float is not float:
            return InvalidJSONInput(data)  # with all digits of its numbers
        return super().bound_data(data, initial)


def _read(text: str) -> Any:
    try:
        return as_json(json.loads(text, parse_constant=refuse))
    except RecursionError as error:
        raise ValueError("it is nested too deeply.") from error


class TopicsField(forms.CharField):
    """Patterns of topics, with spaces, commas or lines between them."""

    widget = FewLines

    def prepare_value(self, value: Any) -> Any:
        """Return the patterns, one in a line."""
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> list[str]:
        """Return the patterns as a list.

        Raises:
            ValidationError: a pattern is invalid.
        """
        try:
            return list(dict.fromkeys(map(as_pattern, _words(super().clean(value)))))
        except InvalidFilter as error:
            raise ValidationError(str(error)) from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether the patterns have changed."""
        return list(initial or []) != _words(data or "")


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()
