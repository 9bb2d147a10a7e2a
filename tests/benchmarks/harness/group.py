"""Programs that start others: stopped, killed and left behind together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType

LIFELINE = Path(__file__).with_name("lifeline.py")
PATIENCE = 10.0  # seconds


class Group:
    """One program and all that it starts; none of it outlives the block, nor this process."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], cwd: Path
    ) -> None:
        reading, self._lifeline = os.pipe()
        self._log = TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-IS", LIFELINE, str(reading), *command],
            cwd=cwd,
            env=dict(environment),
            pass_fds=[reading],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(reading)

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        os.close(self._lifeline)
        self._log.close()

    @property
    def has_ended(self) -> bool:
        """Whether the program that was started is no more."""
        return self._process.poll() is not None

    def said(self) -> str:
        """Return the end of what it printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]

    def stop(self) -> None:
        """Ask the program to stop; kill whatever is left."""
        if not self.has_ended:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """SIGKILL all of it at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
