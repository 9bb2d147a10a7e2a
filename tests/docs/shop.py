"""The app `shop` that pages take for granted, with the models of the test project."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pgqueue import task


def install_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have code import `shop`. The fixture `own_tasks` forgets its task again."""
    from testproject.shop import models

    def send_receipt(order_id: int) -> None: ...

    send_receipt.__module__, send_receipt.__qualname__ = "shop.tasks", "send_receipt"
    tasks = ModuleType("shop.tasks")
    vars(tasks).update(send_receipt=task(channel="mail")(send_receipt))
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.models", models)
    monkeypatch.setitem(sys.modules, "shop.tasks", tasks)
