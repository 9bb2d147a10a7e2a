"""The end of a process whose time is over."""

from __future__ import annotations

import os
from datetime import timedelta
from time import monotonic

import pytest

from pgqueue.worker.leash import Leash
from tests.eventually import eventually

SOON, LATER = timedelta(seconds=0.1), timedelta(hours=1)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    return ends


def test_it_ends_the_process_when_its_time_is_over(ends: list[int]) -> None:
    Leash().shorten(SOON)

    eventually(lambda: ends == [1])


def test_it_is_never_made_longer(ends: list[int]) -> None:
    leash = Leash()
    leash.shorten(SOON)

    leash.shorten(LATER)

    eventually(lambda: ends == [1])


def test_it_can_be_made_shorter(ends: list[int]) -> None:
    leash = Leash()
    leash.shorten(LATER)

    leash.shorten(SOON)

    eventually(lambda: ends == [1])


def test_it_can_be_let_go(ends: list[int]) -> None:
    leash = Leash()
    leash.shorten(SOON)
    leash.loosen()
    until = monotonic() + 3 * SOON.total_seconds()

    eventually(lambda: monotonic() > until)

    assert ends == []
