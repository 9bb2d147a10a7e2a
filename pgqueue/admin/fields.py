from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import connections
from django.utils.translation import gettext_lazy as _

from pgqueue.conf import settings
from pgqueue.events import groups
from pgqueue.events.consumers import parse_start
from pgqueue.exceptions import InvalidFilter, InvalidGroup
from pgqueue.filters import as_pattern

STARTS = _("now, beginning, a position, or a time such as 2026-11-24T08:30:00Z.")


class PositionField(forms.CharField):
    """A place in the log, as the position that this is now."""

    def clean(self, value: Any) -> int | None:
        """Look it up.

        Raises:
            ValidationError: it is no place in the log.
        """
        text = super().clean(value)
        if not text:
            return None
        try:
            return groups.resolve(connections[settings().database], parse_start(text))
        except (InvalidGroup, ValueError) as error:
            raise ValidationError(str(error)) from error


class TopicsField(forms.CharField):
    """Patterns of topics, with spaces, commas or lines between them."""

    widget = forms.Textarea

    def prepare_value(self, value: Any) -> Any:
        """Show each in a line."""
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> list[str]:
        """Return them as a list.

        Raises:
            ValidationError: one is no pattern.
        """
        try:
            return list(dict.fromkeys(map(as_pattern, _words(super().clean(value)))))
        except InvalidFilter as error:
            raise ValidationError(str(error)) from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Say whether they are others."""
        return list(initial or []) != _words(data or "")


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()
