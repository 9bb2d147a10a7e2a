"""Log to stderr, if the project does not configure logging."""

from __future__ import annotations

import logging


def configure_logging(level: int | None) -> None:
    """Log to stderr from `level` on, unless the project's LOGGING configures handlers."""
    logger = logging.getLogger("pgqueue")
    if level is None or logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
