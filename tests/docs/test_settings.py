"""The page of the settings has every setting, as the code has it."""

from __future__ import annotations

import sys
from dataclasses import fields

import pytest

from pgqueue.conf import Settings
from tests.docs.blocks import ROOT

EXTENSIONS = ROOT / "docs" / "_extensions"


def test_the_page_of_the_settings_is_written_from_the_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    monkeypatch.delitem(sys.modules, "settings_table", raising=False)
    import settings_table

    text = settings_table.PAGE.read_text("utf-8")

    assert text == settings_table.written(text), (
        "docs/settings.md differs from pgqueue/conf.py: "
        "run `python docs/_extensions/settings_table.py`"
    )


def test_the_page_has_each_setting() -> None:
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")

    assert [
        each.name for each in fields(Settings) if f"| `{each.name.upper()}` |" not in text
    ] == []
