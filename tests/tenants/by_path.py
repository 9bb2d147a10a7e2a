"""Tenants by `SET search_path`: the functions of docs/guide/tenants.md, which reset no path."""

from __future__ import annotations

from tests.docs.blocks import blocks

exec(blocks("docs/guide/tenants.md")[2].code, globals())  # noqa: S102
