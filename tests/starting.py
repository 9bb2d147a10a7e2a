"""Start Python programs of the project, most of them by a fork.

A new interpreter spends half a second of CPU on imports. `Popen` and `run` have a server
(`tests/fork_server.py`) fork the process where the program cannot tell the difference, and start
an interpreter elsewhere. With TESTS_FORK=0 in the environment they always start an interpreter.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from testproject.shop.demo import bound_to_parent
from tests import fork_server
from tests.fork_server import PR_SET_CHILD_SUBREAPER, ROOT, prctl

FORKS = sys.platform == "linux" and os.environ.get("TESTS_FORK") != "0"
WITHIN = 60.0
"""Seconds in which the server must have imported its modules and forked a process."""
READ_EARLY = ("PYTHON", "PSYCOPG_", "LD_", "LC_", "LANG", "MALLOC_")
"""Prefixes of the variables that an interpreter, or a module of the server, reads at its start."""
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"
}
"""The environment of the server. Without settings, an import that reads them fails."""
KNOWN_OPTIONS = {"stdin", "stdout", "stderr", "text", "process_group"}
STREAMS = ("p2cread", "c2pwrite", "errwrite")


class Popen(subprocess.Popen[Any]):
    """A process that runs `python arguments…`.

    The kernel kills a forked process when the tests' process ends.

    Args:
        forked: whether the server may fork it. Where only a new interpreter does what the test is
            about, pass False.
        bound: whether the kernel is to kill an interpreter, too, when the tests' process ends.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path = ROOT,
        forked: bool = True,
        bound: bool = False,
        **options: Any,
    ) -> None:
        self.arguments = list(arguments)
        self.is_forked = forked and cwd == ROOT and is_forkable(arguments, env, options)
        binding = [bound_to_parent.__file__, str(os.getpid())] if bound else []
        command = [sys.executable, *binding, *arguments]
        super().__init__(command, env=env, cwd=cwd, **options)

    def _execute_child(self, *values: Any) -> None:
        # A private method, the only one that starts a process: tests/test_starting.py calls it.
        start = super()._execute_child  # type: ignore[misc]
        if not self.is_forked:
            start(*values)
            return
        asked = inspect.signature(start).bind(*values).arguments
        given = [asked[name] for name in STREAMS]
        request = {
            "arguments": self.arguments,
            "environment": dict(asked["env"]),
            "group": None if asked["process_group"] == -1 else asked["process_group"],
        }
        self.pid = server.fork(
            request, [number if each == -1 else each for number, each in enumerate(given)]
        )
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))  # type: ignore[attr-defined]


def run(
    arguments: Sequence[str], *, timeout: float | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run `python arguments…` to its end, as `subprocess.run` does; return its output."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(arguments, **options) as process:
        try:
            output, complaints = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, output, complaints)
    if check:
        done.check_returncode()
    return done


def is_forkable(
    arguments: Sequence[str], environment: Mapping[str, str], options: Mapping[str, Any]
) -> bool:
    """Whether a forked process does the same as a new interpreter."""
    return (
        FORKS
        and _inherited() == INHERITED
        and set(options) <= KNOWN_OPTIONS
        and (arguments[0] == "-m" or arguments[0].endswith(".py"))
        and _read_early(environment) == _read_early(ENVIRONMENT)
    )


def _inherited() -> tuple[Any, ...]:
    """Return what a process has of its parent and the server does not set: masks and limits."""
    if not FORKS:
        return ()
    lines = Path("/proc/self/status").read_text().splitlines()
    masks = [line for line in lines if line.startswith(("SigBlk", "SigIgn", "Umask"))]
    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    return (masks, [resource.getrlimit(each) for each in limits])


INHERITED = _inherited()


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_EARLY)}


class Server:
    """The fork server of this process; the first request starts it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Have the server fork a process, whose parent is this one; return its pid."""
        with self._lock:
            control = self._control
            # A test's own fork does not share the server of its parent.
            if control is None or self._owner != os.getpid():
                control = self._start()
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            try:
                message = json.dumps({**request, "parent": os.getpid()}).encode()
                socket.send_fds(control, [message], streams)
                answer = control.recv(100)
            except OSError as error:
                raise RuntimeError("The fork server has ended, or has not answered.") from error
            finally:
                prctl(PR_SET_CHILD_SUBREAPER, 0)
            if not answer:
                raise RuntimeError("The fork server has ended.")
            return int(answer)

    def stop(self) -> None:
        """Have the server end; the next request starts another one."""
        with self._lock:
            if self._control and self._process and self._owner == os.getpid():
                self._control.close()
                self._process.wait(10)
            self._control = None

    def _start(self) -> socket.socket:
        control, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(WITHIN)
        with its_end:
            self._process = subprocess.Popen(
                [sys.executable, fork_server.__file__, str(its_end.fileno())],
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its_end.fileno()],
            )
        self._control, self._owner = control, os.getpid()
        return control


server = Server()
atexit.register(server.stop)
