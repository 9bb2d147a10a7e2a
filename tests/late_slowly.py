"""A module of the project whose import takes until a test lets it go on."""

from __future__ import annotations

from pgqueue import task
from tests import gates

gates.entered.set()
gates.opened.wait(10)


@task
def thrice(number: int) -> int:
    return 3 * number
