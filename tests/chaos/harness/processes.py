"""Workers, producers and others, in processes that die with the suite."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.starting import ROOT, Popen


class Process:
    """A Python program of the project's, what it says and what it complains of.

    Args:
        name: of its two files in `folder`.
        root: the checkout that it runs from.
    """

    def __init__(
        self,
        name: str,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str],
        root: Path = ROOT,
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._output = folder / f"{name}.out"
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self._popen = Popen(
                arguments,
                cwd=root,
                env={**os.environ, **environment},
                bound=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Its process's number."""
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or is stopped."""
        return self._popen.poll() is None

    @property
    def log(self) -> str:
        """What it complained of so far."""
        return self._log.read_text(errors="replace")

    @property
    def output(self) -> list[str]:
        """The lines it said so far, whole ones."""
        return self._output.read_text(errors="replace").split("\n")[:-1]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is still there."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._popen.kill()
        self._popen.wait(30)

    def exit_status(self, within: float = 40) -> int:
        """Wait for its end."""
        return self._popen.wait(within)
