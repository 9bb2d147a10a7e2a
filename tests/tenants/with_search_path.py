"""A project that sets the search_path itself."""

from __future__ import annotations

from tests.tenants.base import *  # noqa: F403

PGQUEUE = {"TENANT": "tests.tenants.by_path", "TENANT_METRICS": 9, "MAX_ATTEMPTS": 1}
