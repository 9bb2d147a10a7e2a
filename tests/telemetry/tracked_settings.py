"""The settings of a worker whose errors are reported to Sentry: here, to a file."""

from pathlib import Path
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.django import DjangoIntegration
from sentry_sdk.transport import Transport

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, env

INSTALLED_APPS = [*INSTALLED_APPS, "tests.telemetry.tracking.Tracking"]


class FileTransport(Transport):
    """Appends events to a file, a line each."""

    def capture_envelope(self, envelope: Envelope) -> None:
        """Write what would be sent."""
        with Path(env.str("SENTRY_FILE")).open("ab") as file:
            for item in envelope.items:
                if item.type == "event":
                    file.write(item.get_bytes() + b"\n")


options: dict[str, Any] = {"transport": FileTransport, "integrations": [DjangoIntegration()]}
sentry_sdk.init("https://key@sentry.invalid/1", **options)
