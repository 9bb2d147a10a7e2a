"""The tutorials, followed to the letter: in an empty folder, with a real project and worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest
from pytest_django import DjangoDbBlocker

from pgqueue.models import Message
from tests.docs.blocks import ROOT, Block, blocks
from tests.eventually import eventually
from tests.processes import database_url
from tests.system import free_port
from tests.unmigrated import empty_database

PAGE = "docs/tutorial.md"
DURABLE = "docs/guide/durable.md"
INSTALLING = ("python3 -m venv", ". .venv/bin/activate", "pip install")
"""The tests' own environment has these."""

SHELL = "python manage.py shell"
INTERACTIVE = (
    "import code, sys; sys.ps1 = sys.ps2 = ''; sys.displayhook = id; code.interact('', exitmsg='')"
)
"""Reads lines as a terminal does: a blank line ends a block, and only a blank line.

It shows neither prompts nor the values of expressions.
"""

END = "the end of the block"


class Reader:
    """Somebody who does what the page says, in a folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "DATABASE_URL": url, "PYTHONPATH": str(ROOT)}
        self.environment.pop("DJANGO_SETTINGS_MODULE", None)
        binaries = str(Path(sys.executable).parent)
        self.environment["PATH"] = os.pathsep.join([binaries, self.environment["PATH"]])
        self.port = free_port()
        self.background: list[subprocess.Popen[bytes]] = []
        self.shell: subprocess.Popen[bytes] | None = None

    def follow(self, block: Block) -> None:
        if block.language == "console":
            for line in block.code.splitlines():
                self.type(line.removeprefix("$ "))
        elif block.file:
            began = self.starts_of_workers()
            with (self.folder / block.file).open("a") as file:
                file.write("\n\n" + block.code)
            # A reader sees it in the worker's terminal. A worker reads urls when it needs them.
            if self.background and not block.file.endswith("urls.py"):
                eventually(lambda: self.starts_of_workers() > began, within=20)
        else:
            self.enter(block)

    def starts_of_workers(self) -> int:
        return self.log().count("Serving every channel")

    def log(self) -> str:
        """Return what those in the background have said."""
        return "".join(each.read_text() for each in self.folder.glob("*.log"))

    def type(self, line: str) -> None:
        """Run a line of the shell."""
        if line.startswith(INSTALLING):
            return
        if line == SHELL:
            self.leave_the_shell()
            with (self.folder / "shell.err").open("w") as errors:
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
                self.shell = self._start(f'{SHELL} -v 0 -c "{INTERACTIVE}"', **pipes)
            return
        line = line.replace("8000", str(self.port))
        if line.endswith("&"):
            with (self.folder / f"{len(self.background)}.log").open("w") as log:
                self.background.append(self._start(line.removesuffix("&"), stdout=log, stderr=log))
            return
        process = self._start(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, f"{line}\n{said.decode()}"

    def enter(self, block: Block) -> None:
        """Enter a block into the open shell, which prints what the comments behind it say."""
        shell = self.shell
        assert shell and shell.stdin and shell.stdout, f"{block}: no shell is open"
        shell.stdin.write(f"{block.code}\nprint('{END}')\n".encode())
        shell.stdin.flush()
        said = []
        for line in shell.stdout:
            if line.decode().strip() == END:
                break
            said.append(line.decode().rstrip("\n"))
        promised = re.findall(r"^print\(.*\)  # (.*)$", block.code, re.M)
        errors = (self.folder / "shell.err").read_text()
        assert (said, errors) == (promised, ""), f"{block}\n{errors}"

    def leave_the_shell(self) -> None:
        if self.shell:
            self.shell.communicate(timeout=30)

    def _start(self, line: str, **streams: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", f"exec env {line}"],  # noqa: S607
            cwd=self.folder,
            env=self.environment,
            **streams,  # type: ignore[call-overload]
        )

    def stop(self) -> None:
        self.leave_the_shell()
        for each in self.background:
            each.send_signal(signal.SIGTERM)
        for each in self.background:
            each.wait(timeout=30)


@pytest.fixture
def reader(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path: Path
) -> Iterator[Reader]:
    with django_db_blocker.unblock(), empty_database():
        reader = Reader(tmp_path, database_url())
        try:
            yield reader
        finally:
            reader.stop()


@pytest.mark.docs
def test_the_tutorial_can_be_followed_to_the_letter(reader: Reader) -> None:
    *_, last = found = blocks(PAGE)
    for block in found:
        reader.follow(block)
        if "runserver" in block.code:
            replay_in_the_admin(reader.port)

    assert last.section == "An event"
    assert set(re.findall(r"^\w+Error: (.*)$", reader.log(), re.M)) == {
        "The bank does not answer.",
        "The bank says no.",
    }


@pytest.mark.docs
def test_the_tutorial_of_durable_tasks_can_be_followed_to_the_letter(reader: Reader) -> None:
    *_, last = found = blocks(DURABLE)
    for block in found:
        reader.follow(block)
        if "runserver" in block.code:
            agree(f"http://localhost:{reader.port}", reader.folder / "done.txt")

    assert last.section == "Other tasks, and events"
    assert "Traceback" not in reader.log()


def agree(site: str, done: Path) -> None:
    """Open the link that was mailed, and press the button."""
    browser = build_opener(HTTPCookieProcessor(jar := CookieJar()))
    eventually(lambda: is_up(browser, f"{site}/admin/"), within=20)
    url = site + done.read_text().split()[-1]
    assert "Refund order 7?" in read(browser, url)
    [token] = [each.value for each in jar if each.name == "csrftoken"]
    assert "Your answer was sent" in post(browser, url, {}, token or "")


def replay_in_the_admin(port: int) -> None:
    """Log in, look at what is dead, and replay it."""
    admin = f"http://localhost:{port}/admin/"
    browser = build_opener(HTTPCookieProcessor(jar := CookieJar()))
    eventually(lambda: is_up(browser, admin), within=20)
    cookies = {each.name: each.value for each in jar}
    login = {"username": "ada", "password": "secret", "next": "/admin/"}
    page = post(browser, admin + "login/", login, cookies["csrftoken"] or "")
    assert "Queue" in page

    messages = admin + "pgqueue/message/"
    page = read(browser, messages)
    (pk,) = set(re.findall(r'name="_selected_action" value="(\d+)"', page))
    assert "orders.tasks.charge" in page
    assert "The bank says no." in read(browser, f"{messages}{pk}/change/")

    form = {"action": "replay", "index": "0", "_selected_action": pk}
    token = next(each.value for each in jar if each.name == "csrftoken")
    post(browser, messages, form, token or "")
    eventually(lambda: Message.objects.get(pk=pk).attempt > 3)


def is_up(browser: OpenerDirector, url: str) -> bool:
    try:
        return bool(read(browser, url))
    except OSError:
        return False


def read(browser: OpenerDirector, url: str) -> str:
    with browser.open(url, timeout=20) as response:
        return str(response.read().decode())


def post(browser: OpenerDirector, url: str, form: dict[str, str], token: str) -> str:
    data = urlencode({**form, "csrfmiddlewaretoken": token}).encode()
    with browser.open(url, data, timeout=20) as response:
        return str(response.read().decode())
