"""Model instances as arguments: stored as their primary key, fetched when a task runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import Model

from pgqueue.codec.encoding import ANYTHING
from pgqueue.codec.forms import full_name
from pgqueue.codec.scalars import Form, Unstorable


def instance_form(cls: Any) -> Form | None:
    """Return the form of a model's instances; None where `cls` is no concrete model.

    Reading fetches the row with one query. If the row is gone, it raises `ObjectDoesNotExist`.
    """
    if not issubclass(cls, Model) or not hasattr(cls, "_meta") or cls._meta.abstract:
        return None

    def write(instance: Any) -> Any:
        if instance.pk is None or instance._state.adding:
            raise Unstorable(f"is a {full_name(cls)} that is not saved: save it first.")
        pk = instance.pk
        return str(pk) if isinstance(pk, UUID) else ANYTHING.write(pk)

    def read(plain: Any) -> Any:
        try:
            return cls._base_manager.get(pk=ANYTHING.read(plain))
        except ValidationError as error:
            raise ValueError(" ".join(error.messages)) from error

    return Form(cls, full_name(cls), (int, str), write, read)
