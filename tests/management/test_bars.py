from __future__ import annotations

import sys
from io import StringIO
from unittest.mock import patch

import pytest

from pgqueue.management.bars import progress_bar


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_terminal_is_shown_how_much_is_done(
    has_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    missing = {} if has_rich else {"rich.console": None, "rich.progress": None}

    with patch.dict(sys.modules, missing), progress_bar("cancelled") as show:
        show(1000, 2500)
        show(2000, 2500)

    assert "cancelled" in terminal.getvalue()
    assert ("2000/2500" if has_rich else "cancelled: 2000 of 2500") in terminal.getvalue()


def test_nothing_is_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("cancelled") as show:
        show(1000, 0)

    assert capsys.readouterr() == ("", "")
