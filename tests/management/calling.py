"""Commands, called as a shell would, without a process of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import StringIO
from typing import Any

from django.core.management import call_command


@dataclass(frozen=True)
class Called:
    """What a command has printed, and its exit status."""

    out: str
    err: str
    status: int

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def objects(self) -> list[Any]:
        """One of each line."""
        return [json.loads(line) for line in self.lines]


def call(name: str, *words: str) -> Called:
    """Call a command to its end.

    Raises:
        CommandError: it failed.
    """
    out, err, status = StringIO(), StringIO(), 0
    try:
        call_command(name, *words, stdout=out, stderr=err)
    except SystemExit as error:
        status = int(error.code or 0)
    return Called(out.getvalue(), err.getvalue(), status)
