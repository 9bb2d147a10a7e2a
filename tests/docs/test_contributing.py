"""The picture of the rooms in CONTRIBUTING is that of the contract in setup.cfg."""

from __future__ import annotations

import re
from configparser import ConfigParser

from tests.docs.blocks import ROOT

RIGHT = 49
"""The column in which the picture begins to say what is in the rooms."""
LEFT_OUT = {"apps", "checks", "database_router", "logs", "pytest_plugin", "signals", "sql"}
"""Rooms that the picture leaves out: modules for Django, or of one subject that their name says."""


def test_the_picture_has_the_rooms_in_their_order() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:rooms"]["layers"].split()
    rooms = [layer.strip("()") for layer in layers]
    guests = {layer.strip("()") for layer in layers if layer.startswith("(")}
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where things are")[2]
    drawn = [
        name.partition("/")[0]
        for line in re.findall(r"^    (.*)$", text.partition("\n## ")[0], re.M)
        for name in line[: RIGHT - 4].split()
    ]

    assert set(rooms) - set(drawn) == LEFT_OUT
    assert set(drawn) <= set(rooms)
    core = [name for name in rooms if name in drawn and name not in guests]
    low = core[core.index("worker") :]
    assert [name for name in drawn if name in low] == low
