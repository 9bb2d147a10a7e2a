"""Processes that the fork server starts, beside those of a new interpreter."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import starting
from tests.eventually import eventually
from tests.starting import ENVIRONMENT, ROOT, Popen, Server, is_forkable, run
from tests.system import is_alive

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not starting.FORKS, reason="Only Linux has what this needs."),
]

REPORT = """
import gc, json, multiprocessing, os, resource, signal, sys, threading, time
from django.conf import settings
started = {
    "name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path,
    "folder": os.getcwd(), "environment": dict(os.environ), "zone": time.tzname,
    "parent": os.getppid(), "leads": os.getpgrp() == os.getpid(), "session": os.getsid(0),
    "files": [os.readlink(f"/proc/self/fd/{n}") for n in range(3)],
    "open": [n for n in range(3, 100) if os.path.exists(f"/proc/self/fd/{n}")],
    "buffering": [each.line_buffering for each in (sys.stdout, sys.stderr)],
    "encodings": [each.encoding for each in (sys.stdin, sys.stdout, sys.stderr)],
    "handlers": [str(signal.getsignal(n)).split(" at ")[0] for n in range(1, 32)],
    "ignored": [line for line in open("/proc/self/status") if line[:6] in ("SigBlk", "SigIgn")],
    "limits": [resource.getrlimit(n) for n in range(16)], "niceness": os.nice(0),
    "mask": os.umask(0o22), "threads": threading.active_count(), "collects": gc.isenabled(),
    "main": threading.current_thread() is threading.main_thread(),
    "tasks": len(os.listdir("/proc/self/task")),
    "no child of multiprocessing": multiprocessing.parent_process() is None,
    "settings": settings.configured, "main module": sys.modules["__main__"].__file__,
}
print(json.dumps(started))
"""
"""A program that tells everything that it finds as it starts."""

ENDS = {
    "at its last line": "print('done')",
    "by exit": "sys.exit(3)",
    "by exit with a text": "sys.exit('in vain')",
    "by an error": "raise LookupError('gone')",
    "by an interrupt": "os.kill(os.getpid(), signal.SIGINT); time.sleep(20)",
    "by SIGTERM": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)",
    "by SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "at once": "os._exit(7)",
    "after its threads": "threading.Thread(target=lambda: [time.sleep(0.1), print('too')]).start()",
    "in a pipe that nobody reads": "r, w = os.pipe(); os.close(r); os.write(w, b'a')",
}
END = """
import atexit, os, signal, sys, threading, time
atexit.register(print, "hooks have run")
"""


def program(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(text, "utf-8")
    return str(file)


def both_ways(*arguments: str, **options: Any) -> list[subprocess.CompletedProcess[str]]:
    """Run a program forked, and by a new interpreter."""
    options = {"env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 30} | options
    return [run(arguments, forked=forked, **options) for forked in (True, False)]


def test_a_forked_process_starts_as_a_new_interpreter_does(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "TZ": "Asia/Tokyo", "OWN": "\udce4"}
    del environment["HOME"]
    file = program(tmp_path, REPORT)

    forked, fresh = both_ways(
        file, "one", "--two", env=environment, stdin=subprocess.DEVNULL, process_group=0
    )

    assert forked.returncode == 0, forked.stderr
    told, expected = json.loads(forked.stdout), json.loads(fresh.stdout)
    pipes = [each.pop("files") for each in (told, expected)]
    assert told == expected
    assert told["parent"] == os.getpid()
    assert told["leads"]
    assert [each[0] for each in pipes] == [os.devnull] * 2


def test_a_forked_module_finds_itself_as_a_new_interpreter_finds_it() -> None:
    forked, fresh = both_ways("-m", "tests.told", "one")

    assert forked.stdout == fresh.stdout
    assert "'one'" in forked.stdout


@pytest.mark.parametrize("end", ENDS)
def test_a_forked_process_ends_as_an_interpreter_does(end: str, tmp_path: Path) -> None:
    forked, fresh = both_ways(program(tmp_path, f"{END}{ENDS[end]}"))

    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_each_forked_process_reads_the_settings_that_its_environment_names(
    tmp_path: Path,
) -> None:
    file = program(
        tmp_path,
        f"import sys; sys.path.append({str(ROOT)!r})\n"
        "import django; django.setup()\n"
        "from django.conf import settings; print(settings.DATABASES['default']['NAME'])\n"
        "from pgqueue.conf import settings; print(settings().lease.total_seconds())\n",
    )

    def told(module: str, name: str, lease: str) -> list[str]:
        environment = {
            **ENVIRONMENT,
            "DJANGO_SETTINGS_MODULE": module,
            "DATABASE_URL": f"postgresql://nobody@127.0.0.1:1/{name}",
            "PGQUEUE_LEASE": lease,
        }
        done = run([file], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return list(done.stdout.split())

    assert told("tests.worker_settings", "one", "7") == ["one", "7.0"]
    assert told("tests.chaos.settings", "two", "3") == ["two", "3.0"]
    assert told("tests.worker_settings", "three", "8") == ["three", "8.0"]


def test_forked_processes_choose_other_random_numbers(tmp_path: Path) -> None:
    file = program(
        tmp_path,
        "import os, random, secrets, tempfile, uuid\n"
        "print(random.random(), secrets.token_hex(), uuid.uuid4(), os.urandom(8),\n"
        "      next(tempfile._get_candidate_names()))",
    )

    first, second = (
        run([file], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True).stdout.split()
        for _ in range(2)
    )

    assert not set(first) & set(second)


def test_a_forked_process_is_signalled_and_killed(tmp_path: Path) -> None:
    file = program(tmp_path, "import time; print('runs', flush=True); time.sleep(60)")

    with Popen([file], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.is_forked
        assert process.stdout.readline() == "runs\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None

        process.kill()

        assert process.wait(10) == -signal.SIGKILL
        assert not is_alive(process.pid)


def test_a_program_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    file = program(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(60)")

    with pytest.raises(subprocess.TimeoutExpired) as raised:
        run([file], env=ENVIRONMENT, capture_output=True, timeout=1)

    assert not is_alive(int(raised.value.stdout or b"0"))


def test_no_process_outlives_the_tests(tmp_path: Path) -> None:
    file = program(tmp_path, "import time; time.sleep(60)")
    tests = subprocess.Popen(
        [sys.executable, "-c", OTHER_TESTS, file], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert tests.stdout
    pids = [int(pid) for pid in tests.stdout.readline().split()]
    assert len(pids) == 3
    assert all(is_alive(pid) for pid in pids)

    tests.kill()

    eventually(lambda: not any(is_alive(pid) for pid in pids), within=10)
    tests.communicate()


OTHER_TESTS = """
import sys
from tests.starting import ENVIRONMENT, Popen, server
processes = [Popen([sys.argv[1]], env=ENVIRONMENT) for _ in range(2)]
print(server._process.pid, *[each.pid for each in processes], flush=True)
input()
"""


def test_the_next_request_starts_a_server_again(tmp_path: Path) -> None:
    own = Server()
    request = {"arguments": [program(tmp_path, "")], "environment": ENVIRONMENT, "group": None}

    for _ in range(2):
        pid = own.fork(request, [0, 1, 2])
        assert os.waitpid(pid, 0) == (pid, 0)
        own.stop()


def test_a_server_that_has_died_is_reported(tmp_path: Path) -> None:
    own = Server()
    request = {"arguments": [program(tmp_path, "")], "environment": ENVIRONMENT, "group": None}
    os.waitpid(own.fork(request, [0, 1, 2]), 0)
    own._process.kill()  # type: ignore[union-attr]

    with pytest.raises(RuntimeError, match="has ended"):
        own.fork(request, [0, 1, 2])
    own.stop()


@pytest.mark.parametrize(
    ("arguments", "environment", "options"),
    [
        (["-c", "pass"], {}, {}),
        (["-u", "manage.py"], {}, {}),
        (["manage.py"], {"PYTHONPATH": "/somewhere"}, {}),
        (["manage.py"], {"PYTHONHASHSEED": "1"}, {}),
        (["manage.py"], {"PSYCOPG_IMPL": "python"}, {}),
        (["manage.py"], {}, {"start_new_session": True}),
        (["manage.py"], {}, {"user": "nobody"}),
        (["manage.py"], {}, {"preexec_fn": os.getpid}),
    ],
)
def test_a_process_that_would_differ_is_not_forked(
    arguments: list[str], environment: dict[str, str], options: dict[str, Any]
) -> None:
    assert is_forkable(["manage.py"], ENVIRONMENT, {})
    assert not is_forkable(arguments, {**ENVIRONMENT, **environment}, options)


def test_a_process_that_would_inherit_an_ignored_signal_is_not_forked() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert not is_forkable(["manage.py"], ENVIRONMENT, {})
    finally:
        signal.signal(signal.SIGHUP, before)

    assert is_forkable(["manage.py"], ENVIRONMENT, {})


def test_a_process_that_would_inherit_a_limit_is_not_forked() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        assert not is_forkable(["manage.py"], ENVIRONMENT, {})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_in_another_folder_is_not_forked(tmp_path: Path) -> None:
    file = program(tmp_path, "import os; print(os.getcwd())")

    with Popen([file], env=ENVIRONMENT, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert not process.is_forked
        assert process.communicate()[0] == f"{tmp_path}\n"
