"""The guide has every option of subscriptions and webhooks, as the records have it."""

from __future__ import annotations

import sys

import pytest

from tests.docs.blocks import ROOT


def test_the_tables_of_options_are_written_from_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    monkeypatch.delitem(sys.modules, "options_tables", raising=False)
    import options_tables

    for page, table in options_tables.tables().items():
        text = page.read_text("utf-8")
        assert text == options_tables.written(text, table), (
            f"{page.name} differs from the records: run `python docs/_extensions/options_tables.py`"
        )
