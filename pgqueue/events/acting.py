"""Who acts, and why: it travels in the metadata of events."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

_acting: ContextVar[Mapping[str, Any]] = ContextVar("acting", default={})  # noqa: B039


def acting() -> Mapping[str, Any]:
    """Return the metadata that says who acts now; {}: nobody has said."""
    return _acting.get()
