"""An app that does what the guide says about Sentry."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig

from tests.docs.blocks import blocks

GUIDE = "docs/guide/tracing.md"


class Tracking(AppConfig):
    """Has the guide's code run when Django is ready."""

    name = "tests.telemetry"
    label = "tracking"

    def ready(self) -> None:
        """Run it."""
        [block] = [
            each for each in blocks("docs/guide/tracing.md", "python") if "sentry" in each.code
        ]
        names: dict[str, Any] = {"__name__": __name__}
        exec(block.code, names)  # noqa: S102
