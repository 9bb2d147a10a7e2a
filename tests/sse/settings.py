"""The settings of a server that is a process of its own, on the tests' database."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.sse.urls"
