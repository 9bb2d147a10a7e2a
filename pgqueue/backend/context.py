from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pgqueue.backend import api


@dataclass(frozen=True, kw_only=True)
class PostgresTaskContext(api.TaskContext):  # type: ignore[misc, type-arg]
    """Django's context, and what pgqueue's knows beside it.

    Attributes:
        metadata: what the producer wrote on the message.
    """

    metadata: Mapping[str, Any]
    is_cancelled: Callable[[], bool] = bool

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this message to be cancelled."""
        return self.is_cancelled()
